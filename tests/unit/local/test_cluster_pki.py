"""Certificates: each component its own, signed by the cluster's authority, and made once."""

import stat
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from local.cluster import kubeconfigs, pki
from local.cluster.layout import Layout

API_ADDRESS = "198.18.4.10"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "state")
    pki.ensure(layout.pki, pki.identities(layout, API_ADDRESS))
    return layout


def _certificate(layout: Layout, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((layout.pki / f"{name}.crt").read_bytes())


def _names(certificate: x509.Certificate) -> tuple[str, set[str]]:
    user = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    groups = {str(item.value) for item in certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)}
    return str(user), groups


def test_every_certificate_is_signed_by_the_authority(layout: Layout) -> None:
    authority = _certificate(layout, "ca")
    identities = pki.identities(layout, API_ADDRESS)
    assert len(identities) == len({identity.file for identity in identities}) >= 16
    for identity in identities:
        _certificate(layout, identity.file).verify_directly_issued_by(authority)


def test_a_kubelet_is_its_own_node_and_no_other(layout: Layout) -> None:
    for node in layout.nodes:
        certificate = _certificate(layout, node.name)
        assert _names(certificate) == (f"system:node:{node.name}", {"system:nodes"})
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.IPAddress) == [node.address]


def test_only_administrators_are_masters(layout: Layout) -> None:
    masters = {identity.file for identity in pki.identities(layout, API_ADDRESS) if "system:masters" in identity.groups}
    assert masters == {"admin", "apiserver-kubelet-client"}


def test_the_api_server_serves_under_all_its_addresses(layout: Layout) -> None:
    certificate = _certificate(layout, "apiserver")
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {ip_address(API_ADDRESS), ip_address("10.96.0.1"), layout.control_plane_address} <= set(
        names.get_values_for_type(x509.IPAddress)
    )
    assert "kubernetes.default.svc.cluster.local" in names.get_values_for_type(x509.DNSName)


def test_who_serves_nothing_has_no_server_certificate(layout: Layout) -> None:
    usage = _certificate(layout, "kube-proxy-node1").extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_keys_are_readable_by_their_owner_alone(layout: Layout) -> None:
    keys = sorted(layout.pki.glob("*.key"))
    assert len(keys) > 10
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys} == {0o600}
    assert stat.S_IMODE(layout.pki.stat().st_mode) == 0o700


def test_what_is_there_is_kept_and_what_is_missing_is_made(layout: Layout) -> None:
    before = {path.name: path.read_bytes() for path in layout.pki.iterdir()}
    (layout.pki / "admin.crt").unlink()
    pki.ensure(layout.pki, pki.identities(layout, API_ADDRESS))
    after = {path.name: path.read_bytes() for path in layout.pki.iterdir()}
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == {"admin.crt", "admin.key"}


def test_an_interrupted_run_leaves_no_certificate_without_its_key(layout: Layout) -> None:
    # The key is written first: whoever is killed in between has a key without a certificate, which is made anew.
    (layout.pki / "coredns.crt").unlink()
    old_key = (layout.pki / "coredns.key").read_bytes()
    pki.ensure(layout.pki, pki.identities(layout, API_ADDRESS))
    new_key = (layout.pki / "coredns.key").read_bytes()
    assert new_key != old_key
    private = pki.serialization.load_pem_private_key(new_key, password=None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert private.public_key() == _certificate(layout, "coredns").public_key()


def test_the_users_kubeconfig_is_complete_in_itself(layout: Layout) -> None:
    text = kubeconfigs.of_user(layout.pki, API_ADDRESS, "some-context")
    assert str(layout.state) not in text
    assert "current-context: some-context" in text
    assert f"https://{API_ADDRESS}:6443" in text
