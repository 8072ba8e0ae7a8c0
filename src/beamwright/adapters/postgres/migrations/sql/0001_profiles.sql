CREATE TABLE actor_profile (
    actor_id      uuid PRIMARY KEY,
    name          text NOT NULL,
    email         text,
    phone         text,
    affiliation   text,
    external_refs json NOT NULL DEFAULT '{}',
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL
)
---
CREATE TABLE actor_identity (
    identity_id uuid PRIMARY KEY,
    actor_id    uuid NOT NULL,
    issuer      text NOT NULL,
    subject     text NOT NULL,
    linked_at   timestamptz NOT NULL,
    CONSTRAINT actor_identity_login UNIQUE (issuer, subject)
)
---
CREATE INDEX actor_identity_actor ON actor_identity (actor_id)
---
ALTER TABLE actor_profile ENABLE ROW LEVEL SECURITY
---
ALTER TABLE actor_profile FORCE ROW LEVEL SECURITY
---
ALTER TABLE actor_identity ENABLE ROW LEVEL SECURITY
---
ALTER TABLE actor_identity FORCE ROW LEVEL SECURITY
---
-- Personal data is reached only through the profile seam, which opens this door for its own statements.
CREATE POLICY profile_seam ON actor_profile
    USING (current_setting('beamwright.profiles', true) = 'open')
    WITH CHECK (current_setting('beamwright.profiles', true) = 'open')
---
CREATE POLICY profile_seam ON actor_identity
    USING (current_setting('beamwright.profiles', true) = 'open')
    WITH CHECK (current_setting('beamwright.profiles', true) = 'open')
