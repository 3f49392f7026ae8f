"""`python -m valkeyctl`."""

from valkeyctl.cli import app

if __name__ == "__main__":
    app(prog_name="valkeyctl")
