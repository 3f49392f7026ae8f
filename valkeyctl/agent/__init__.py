"""What runs beside the server in each Pod: it lets the server start, tells how it is, heals, and keeps it as declared.

Whatever is needed until the server serves is light: the standard library, `dataplane.model`, and modules of this
package. valkey-py, urllib3 and `valkeyctl.kube` are imported once the server runs (ADR 0051).
"""
