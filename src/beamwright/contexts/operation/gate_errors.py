"""How the gate refuses a procedure, which serves maintenance too: its assets need not be Active or without fault."""

from beamwright.contexts.run.gate import GateErrors, GateRow
from beamwright.kernel.errors import ConflictError


class ProcedureAssetScopeUnresolvedError(ConflictError):
    """An asset that the procedure touches does not exist."""


class ProcedureTargetAssetDecommissionedError(ConflictError):
    """A target asset of the procedure is decommissioned."""


class ProcedureVisitNotOpenError(ConflictError):
    """The visit has not arrived, is on hold or has ended."""


class ProcedureParentRunNotRunningError(ConflictError):
    """The run that the procedure is a phase of is not Running."""


class ProcedureRequiresAvailableSupplyError(ConflictError):
    """No supply of a needed kind is in scope."""


class ProcedureSupplyCoverageMismatchError(ConflictError):
    """No supply in scope of a needed kind is available."""


class ProcedureRequiresPermittedEnclosureError(ConflictError):
    """None of the enclosures is Permitted-and-Active."""


class ProcedureEnclosureCoverageMismatchError(ConflictError):
    """One of the enclosures is not Permitted-and-Active."""


class ProcedureRequiresActiveClearanceError(ConflictError):
    """No clearance is bound to anything that needs one."""


class ProcedureClearanceCoverageMismatchError(ConflictError):
    """Something that needs a clearance is covered by none in force."""


PROCEDURE_GATE: GateErrors = {
    GateRow.ASSETS_EXIST: ProcedureAssetScopeUnresolvedError,
    GateRow.NONE_DECOMMISSIONED: ProcedureTargetAssetDecommissionedError,
    GateRow.VISIT_OPEN: ProcedureVisitNotOpenError,
    GateRow.PARENT_RUN_RUNNING: ProcedureParentRunNotRunningError,
    GateRow.SUPPLIES_IN_SCOPE: ProcedureRequiresAvailableSupplyError,
    GateRow.SUPPLIES_AVAILABLE: ProcedureSupplyCoverageMismatchError,
    GateRow.SOME_ENCLOSURE_PERMITTED: ProcedureRequiresPermittedEnclosureError,
    GateRow.EVERY_ENCLOSURE_PERMITTED: ProcedureEnclosureCoverageMismatchError,
    GateRow.CLEARANCE_BOUND: ProcedureRequiresActiveClearanceError,
    GateRow.CLEARANCES_COVER: ProcedureClearanceCoverageMismatchError,
}
