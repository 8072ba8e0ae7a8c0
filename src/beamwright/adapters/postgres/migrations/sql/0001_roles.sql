-- Roles belong to the cluster, not to the database: another installation may have made it.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'beamwright_service') THEN
        BEGIN
            CREATE ROLE beamwright_service NOLOGIN;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
        END;
    END IF;
    EXECUTE format('GRANT beamwright_service TO %I', current_user);
END $$
---
GRANT USAGE ON SCHEMA public TO beamwright_service
---
GRANT SELECT, INSERT ON events TO beamwright_service
---
GRANT SELECT, INSERT, DELETE ON claims TO beamwright_service
---
GRANT SELECT, INSERT, DELETE ON idempotency TO beamwright_service
---
GRANT SELECT, UPDATE ON authority TO beamwright_service
---
GRANT SELECT, INSERT, UPDATE, DELETE ON projections, leases, actor_profile, actor_identity TO beamwright_service
---
GRANT SELECT, INSERT ON conduit_verdicts TO beamwright_service
---
GRANT EXECUTE ON FUNCTION keep_verdict_months TO beamwright_service
---
GRANT USAGE, CREATE ON SCHEMA lists TO beamwright_service
---
GRANT SELECT ON ALL TABLES IN SCHEMA public TO beamwright_service
