"""How the gate refuses a run."""

from beamwright.kernel.errors import ConflictError

from .gate import GateErrors, GateRow


class RunAssetScopeUnresolvedError(ConflictError):
    """An asset that the run touches does not exist."""


class RunPlanAssetDecommissionedError(ConflictError):
    """An asset of the plan is decommissioned."""


class RunAssetNotActiveError(ConflictError):
    """An asset of the plan is not Active."""


class RunAssetFaultedError(ConflictError):
    """An asset of the plan is Faulted."""


class RunSubjectNotMountedError(ConflictError):
    """The subject is not mounted on an asset that the run touches."""


class RunOutsidePlanWindowError(ConflictError):
    """The plan's window does not include this moment."""


class RunVisitNotOpenError(ConflictError):
    """The visit has not arrived, is on hold or has ended."""


class RunRequiresAvailableSupplyError(ConflictError):
    """No supply of a needed kind is in scope."""


class RunSupplyCoverageMismatchError(ConflictError):
    """No supply in scope of a needed kind is available."""


class RunRequiresPermittedEnclosureError(ConflictError):
    """None of the enclosures is Permitted-and-Active."""


class RunEnclosureCoverageMismatchError(ConflictError):
    """One of the enclosures is not Permitted-and-Active."""


class RunRequiresActiveClearanceError(ConflictError):
    """No clearance is bound to anything that needs one."""


class RunClearanceCoverageMismatchError(ConflictError):
    """Something that needs a clearance is covered by none in force."""


RUN_GATE: GateErrors = {
    GateRow.ASSETS_EXIST: RunAssetScopeUnresolvedError,
    GateRow.NONE_DECOMMISSIONED: RunPlanAssetDecommissionedError,
    GateRow.ASSETS_ACTIVE: RunAssetNotActiveError,
    GateRow.NONE_FAULTED: RunAssetFaultedError,
    GateRow.SUBJECT_MOUNTED: RunSubjectNotMountedError,
    GateRow.WITHIN_PLAN_WINDOW: RunOutsidePlanWindowError,
    GateRow.VISIT_OPEN: RunVisitNotOpenError,
    GateRow.SUPPLIES_IN_SCOPE: RunRequiresAvailableSupplyError,
    GateRow.SUPPLIES_AVAILABLE: RunSupplyCoverageMismatchError,
    GateRow.SOME_ENCLOSURE_PERMITTED: RunRequiresPermittedEnclosureError,
    GateRow.EVERY_ENCLOSURE_PERMITTED: RunEnclosureCoverageMismatchError,
    GateRow.CLEARANCE_BOUND: RunRequiresActiveClearanceError,
    GateRow.CLEARANCES_COVER: RunClearanceCoverageMismatchError,
}
