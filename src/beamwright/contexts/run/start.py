"""Starting a run: a plan, its parameters and its assets, let through by the gate."""

from beamwright.contexts.campaign.campaign import CampaignRunAdded
from beamwright.kernel.event import Event
from beamwright.kernel.external_refs import checked_refs
from beamwright.kernel.operation import Command, Occasion, World

from .gate import Judgement, gate_evidence, judge
from .preparation import RunOrder, RunPreparation, load_preparation
from .run import InvalidRunExternalRefsError, RunAddedToCampaign, RunStarted, runs
from .start_rules import START_RULES, checked_name, checked_raid, checked_trigger_note


@runs.operation("POST /runs", creates=True)
class StartRun(RunOrder, Command[RunPreparation]):
    """Start a run of a plan, if everything that it needs is there and permitted."""

    async def gather(self, world: World) -> RunPreparation:
        return await load_preparation(world, self)

    def decide(self, seen: RunPreparation, occasion: Occasion) -> list[Event]:
        judged = judge(seen.gate, occasion.now)
        for rule in START_RULES:
            rule(self, seen, judged)
        started = self.started(seen, judged, occasion)
        if seen.campaign is None:
            return [started]
        run_id, campaign_id, now = started.run_id, seen.campaign.id, occasion.now
        return [
            started,
            RunAddedToCampaign(run_id=run_id, occurred_at=now, campaign_id=campaign_id),
            CampaignRunAdded(campaign_id=campaign_id, occurred_at=now, run_id=run_id),
        ]

    def started(self, seen: RunPreparation, judged: Judgement, occasion: Occasion) -> RunStarted:
        plan, method = seen.plan, seen.binding.method
        return RunStarted(
            run_id=occasion.new_id,
            occurred_at=occasion.now,
            name=checked_name(self),
            plan_id=plan.id,
            plan_stream_version=plan.stream_version,
            plan_content_hash=plan.content_hash,
            practice_id=plan.practice_id,
            method_id=method.id,
            method_stream_version=method.stream_version,
            capability_id=plan.capability_id,
            facility_code=plan.facility_code,
            asset_ids=plan.asset_ids,
            started_by=occasion.principal_id,
            visit_id=self.visit_id,
            subject_id=self.subject_id,
            raid=checked_raid(self),
            override_parameters=self.override_parameters,
            effective_parameters=seen.effective_parameters(self.override_parameters),
            parameters_schema_version=method.parameters_schema_version,
            pinned_calibration_ids=self.pinned_calibration_ids,
            external_refs=checked_refs(self.external_refs, InvalidRunExternalRefsError),
            trigger_note=checked_trigger_note(self),
            gate_evidence=gate_evidence(judged),
            shown_caution_ids=seen.gate.caution_ids,
            decided_by_decision_id=self.decided_by_decision_id,
        )
