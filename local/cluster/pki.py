"""Certificates: an authority for each cluster, and one certificate for each component, which names what it may do."""

import datetime
import ipaddress
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .layout import API_SERVICE, CLUSTER_DOMAIN, Layout

_VALID = datetime.timedelta(days=3650)
_CLOCK_SKEW = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class Identity:
    """Whom a certificate is for: the user and groups that Kubernetes sees, and the names under which it serves."""

    file: str
    user: str
    groups: tuple[str, ...] = ()
    serves: tuple[str, ...] = ()


def identities(layout: Layout, api_address: str) -> tuple[Identity, ...]:
    """All certificates of a cluster. `api_address`: where the host reaches the API server."""
    api_names = (
        *("localhost", "127.0.0.1", str(API_SERVICE), str(layout.control_plane_address), api_address),
        *("kubernetes", "kubernetes.default", "kubernetes.default.svc", f"kubernetes.default.svc.{CLUSTER_DOMAIN}"),
    )
    kubelets = [
        Identity(node.name, f"system:node:{node.name}", ("system:nodes",), (node.name, str(node.address)))
        for node in layout.nodes
    ]
    per_node = [
        Identity(f"{component}-{node.name}", user, groups)
        for node in layout.nodes
        for component, user, groups in (
            ("kube-proxy", "system:kube-proxy", ()),
            ("kube-router", f"kube-router:{node.name}", ("kube-router",)),
        )
    ]
    return (
        Identity("apiserver", "kube-apiserver", serves=api_names),
        Identity("apiserver-kubelet-client", "kube-apiserver-kubelet-client", ("system:masters",)),
        Identity("admin", "admin", ("system:masters",)),
        Identity("kube-controller-manager", "system:kube-controller-manager"),
        Identity("kube-scheduler", "system:kube-scheduler"),
        Identity("coredns", "coredns"),
        Identity("volumes", "volume-provisioner"),
        *kubelets,
        *per_node,
    )


def ensure(folder: Path, wanted: Iterable[Identity]) -> None:
    """Make the authority, the key that signs service accounts' tokens, and every certificate that isn't there yet."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not (folder / "ca.crt").exists():
        _make_authority(folder)
    if not (folder / "sa.key").exists():
        key = ec.generate_private_key(ec.SECP256R1())
        _write(folder / "sa.pub", key.public_key().public_bytes(*_PUBLIC))
        _write(folder / "sa.key", _private(key))
    authority = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    signer = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), password=None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)  # noqa: S101  # made above, by us
    for identity in wanted:
        if not (folder / f"{identity.file}.crt").exists():
            _make_certificate(folder, identity, authority, signer)


def _make_authority(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "valkey-local")])
    certificate = (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(sign_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(folder / "ca.key", _private(key))
    _write(folder / "ca.crt", certificate.public_bytes(serialization.Encoding.PEM))


def _make_certificate(
    folder: Path, identity: Identity, authority: x509.Certificate, signer: ec.EllipticCurvePrivateKey
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in identity.groups]
    attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, identity.user))
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if identity.serves:
        usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
    builder = (
        _builder(x509.Name(attributes), authority.subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(sign_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if identity.serves:
        names = x509.SubjectAlternativeName([_alternative_name(name) for name in identity.serves])
        builder = builder.add_extension(names, critical=False)
    _write(folder / f"{identity.file}.key", _private(key))
    _write(
        folder / f"{identity.file}.crt", builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    )


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _VALID)
    )


def _key_usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


_PUBLIC = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all: a half-written key would be taken for a key by the next run."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    new.replace(path)
