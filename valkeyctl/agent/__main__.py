"""`python -m valkeyctl.agent`, and the entry of agent.pyz."""

from valkeyctl.agent.main import main

main()
