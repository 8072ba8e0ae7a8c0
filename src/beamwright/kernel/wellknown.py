"""The fixed ids of what every installation is seeded with."""

from uuid import UUID


def _seeded(digits: str) -> UUID:
    return UUID(f"01900000-0000-7000-8000-00a00000{digits}")


BUILT_IN_ISSUER = "urn:beamwright:local"

LOCAL_OPERATOR = _seeded("0101")
ADMINISTRATOR = _seeded("0102")
SEEDER = _seeded("0111")
MONITOR = _seeded("0112")
SCHEDULER = _seeded("0113")
REACTOR = _seeded("0114")
RUN_CONDUCTOR = _seeded("0115")
CLEARANCE_EXPIRER = _seeded("0205")

HTTP_SURFACE = _seeded("0301")
MCP_STDIO_SURFACE = _seeded("0302")
MCP_SURFACE = _seeded("0303")
IN_PROCESS_SURFACE = _seeded("0304")

CLIENTS_ZONE = _seeded("0401")
SERVICE_ZONE = _seeded("0402")

CLIENTS_CONDUIT = _seeded("0501")
SERVICE_CONDUIT = _seeded("0502")

ADMINISTRATOR_POLICY = _seeded("0601")
SCIENTIST_POLICY = _seeded("0602")
OPERATOR_POLICY = _seeded("0603")
OBSERVER_POLICY = _seeded("0604")
SAFETY_OFFICER_POLICY = _seeded("0605")
AGENT_POLICY = _seeded("0606")
MONITOR_POLICY = _seeded("0607")
LAPTOP_POLICY = _seeded("0608")
PEER_POLICY = _seeded("0609")


def _equipment(digits: str) -> UUID:
    return UUID(f"01900000-0000-7000-8000-0000{digits}")


CATALOGUE_SEEDER = _equipment("e0000001")
IDENTIFIER_MINTER = _equipment("e0000002")


def seeded_role(number: int) -> UUID:
    return _equipment(f"e10000{number:02d}")


def seeded_family(number: int) -> UUID:
    return _equipment(f"e20000{number:02d}")


def seeded_quantity(number: int) -> UUID:
    return _equipment(f"ca1b00{number:02x}")


GENERAL_CLEARANCE_TEMPLATE = UUID("01900000-0000-7000-8000-005a00000001")

# The family whose assets may carry a partition rule.
PSEUDO_AXIS_FAMILY = seeded_family(13)
