-- Text, as events are: what a driver sent comes back to the digit.
CREATE TABLE entries_procedure_activities (
    row_number      bigint GENERATED ALWAYS AS IDENTITY,
    procedure_id    uuid NOT NULL,
    event_id        uuid NOT NULL,
    principal_id    uuid NOT NULL,
    sampled_at      timestamptz NOT NULL,
    recorded_at     timestamptz NOT NULL,
    iteration_index integer,
    step_index      integer,
    late            boolean NOT NULL,
    step_kind       text NOT NULL,
    result          text,
    target          text,
    correlation_id  text NOT NULL,
    error_class     text,
    message         text,
    payload         json NOT NULL,
    PRIMARY KEY (procedure_id, event_id)
)
---
CREATE UNIQUE INDEX entries_procedure_activities_read ON entries_procedure_activities (procedure_id, row_number)
---
CREATE TABLE entries_procedure_outcomes (
    row_number      bigint GENERATED ALWAYS AS IDENTITY,
    procedure_id    uuid NOT NULL,
    event_id        uuid NOT NULL,
    principal_id    uuid NOT NULL,
    sampled_at      timestamptz NOT NULL,
    recorded_at     timestamptz NOT NULL,
    objective_value double precision,
    iteration_index integer NOT NULL,
    succeeded       boolean NOT NULL,
    late            boolean NOT NULL,
    actuation_kind  text,
    correlation_id  text NOT NULL,
    point           json NOT NULL,
    measurements    json NOT NULL,
    PRIMARY KEY (procedure_id, event_id)
)
---
CREATE UNIQUE INDEX entries_procedure_outcomes_read
    ON entries_procedure_outcomes (procedure_id, iteration_index, row_number)
---
GRANT SELECT, INSERT ON entries_procedure_activities, entries_procedure_outcomes TO beamwright_service
