-- worklease: refuse effects of a lease that has passed on, inside the effect's own transaction.
--
-- Apply once per database, again after an upgrade, as the role that shall own the marks:
--     psql --single-transaction --file postgresql.sql
-- Everything lands in the first schema of the search_path. Then let the service use it:
--     GRANT EXECUTE ON FUNCTION worklease_fence(text, bigint) TO the_service;
--
--     SELECT worklease_fence('payments/invoice-42', 1482);   -- first in the transaction that has the effect
--
-- SQLSTATE WL412  a later epoch has been here: the sender's standing has ended
--          WL400  not a lease or not an epoch
--          WL428  no token where the trigger needs one
--          WL403  the token is for other work than the row
-- Each aborts the transaction, and so the effect.

CREATE TABLE IF NOT EXISTS worklease_mark (
    lease    text COLLATE "C" PRIMARY KEY,
    epoch    bigint NOT NULL CHECK (epoch BETWEEN 1 AND 9007199254740991),
    moved_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE worklease_mark IS 'The highest fencing epoch that has had an effect here, for each lease.';

CREATE OR REPLACE FUNCTION worklease_fence(lease text, epoch bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $fence$
#variable_conflict use_column
DECLARE
    highest bigint;
    part CONSTANT text := '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
    subdomain CONSTANT text := part || '(\.' || part || ')*';
BEGIN
    SELECT mark.epoch INTO highest FROM worklease_mark AS mark WHERE mark.lease = worklease_fence.lease;

    -- Effects of one tenure run side by side under a shared row lock, which whoever moves the mark waits for.
    -- The row lock is what makes this safe. The advisory lock before it is only a fair queue: without it a
    -- steady stream of the old tenure's effects, always overlapping, would keep the next tenure out for ever.
    IF highest = worklease_fence.epoch THEN
        PERFORM pg_advisory_xact_lock_shared(1464618820, hashtext(worklease_fence.lease));
        PERFORM 1 FROM worklease_mark AS mark
            WHERE mark.lease = worklease_fence.lease AND mark.epoch = worklease_fence.epoch FOR SHARE;
        IF FOUND THEN
            RETURN worklease_fence.epoch;
        END IF;
    END IF;

    IF highest IS NULL OR highest <= worklease_fence.epoch OR (worklease_fence.epoch >= 1) IS NOT TRUE THEN
        IF worklease_fence.epoch BETWEEN 1 AND 9007199254740991
            AND length(worklease_fence.lease) <= 571
            AND worklease_fence.lease COLLATE "C"
                ~ ('^(' || subdomain || '/)?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/' || subdomain || '$')
            AND (SELECT bool_and(length(name) <= 253) FROM unnest(string_to_array(worklease_fence.lease, '/')) AS name)
        THEN
            PERFORM pg_advisory_xact_lock(1464618820, hashtext(worklease_fence.lease));
            INSERT INTO worklease_mark AS mark (lease, epoch)
                VALUES (worklease_fence.lease, worklease_fence.epoch)
                ON CONFLICT (lease) DO UPDATE SET epoch = excluded.epoch, moved_at = now()
                WHERE mark.epoch <= excluded.epoch
                RETURNING mark.epoch INTO highest;
            IF FOUND THEN
                RETURN worklease_fence.epoch;
            END IF;
            SELECT mark.epoch INTO highest FROM worklease_mark AS mark WHERE mark.lease = worklease_fence.lease;
        ELSE
            RAISE EXCEPTION USING
                ERRCODE = 'WL400',
                MESSAGE = 'not a fencing token: a lease is NAMESPACE/NAME or CLUSTER/NAMESPACE/NAME, '
                    'an epoch is 1 to 9007199254740991';
        END IF;
    END IF;

    RAISE EXCEPTION USING
        ERRCODE = 'WL412',
        MESSAGE = format('stale epoch %s for %s: epoch %s has been here',
                         worklease_fence.epoch, worklease_fence.lease, highest),
        HINT = 'The lease has passed to a later tenure; claim the work again before any effect.';
END
$fence$;

-- For tables that are written by programs that cannot be changed, or must not be trusted to call the function:
--     CREATE TRIGGER fenced BEFORE INSERT OR UPDATE OR DELETE ON charge
--         FOR EACH STATEMENT EXECUTE FUNCTION worklease_fence_trigger();
-- or, where a column of the table names the lease that a row belongs to:
--         FOR EACH ROW EXECUTE FUNCTION worklease_fence_trigger('lease');
-- by an owner of the table who may: GRANT EXECUTE ON FUNCTION worklease_fence_trigger() TO the_owner;
-- On a partitioned table FOR EACH ROW: a trigger of the statement does not see a write to a partition by its name.
-- The writer says who it is, in the transaction that writes:
--     SELECT set_config('worklease.token', 'payments/invoice-42@1482', true);
CREATE OR REPLACE FUNCTION worklease_fence_trigger() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $trigger$
DECLARE
    token CONSTANT text := coalesce(current_setting('worklease.token', true), '');
    parts CONSTANT text[] := regexp_match(token, '^([^@]+)@([1-9][0-9]{0,15})(?:#[!-+\--~]{1,64})?$');
    belongs_to text;
BEGIN
    IF TG_NARGS > 1 OR (TG_NARGS = 1 AND TG_LEVEL = 'STATEMENT') THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('the trigger %I takes one column, and that FOR EACH ROW only: it would not be compared',
                             TG_NAME);
    END IF;
    IF TG_LEVEL = 'STATEMENT' AND (SELECT relkind = 'p' FROM pg_class WHERE oid = TG_RELID) THEN
        RAISE EXCEPTION USING
            ERRCODE = 'invalid_parameter_value',
            MESSAGE = format('the trigger %I of a partitioned table must be FOR EACH ROW: '
                             'it does not see writes to a partition by name', TG_NAME);
    END IF;
    IF token = '' THEN
        RAISE EXCEPTION USING
            ERRCODE = 'WL428',
            MESSAGE = format('no fencing token for a write to %I', TG_TABLE_NAME),
            HINT = 'In this transaction, first: SELECT set_config(''worklease.token'', ''LEASE@EPOCH'', true)';
    ELSIF parts IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'WL400', MESSAGE = 'worklease.token is not a fencing token, LEASE@EPOCH or LEASE@EPOCH#CLAIM';
    END IF;
    IF TG_NARGS = 1 THEN
        FOREACH belongs_to IN ARRAY CASE TG_OP
            WHEN 'INSERT' THEN ARRAY[to_jsonb(NEW) ->> TG_ARGV[0]]
            WHEN 'DELETE' THEN ARRAY[to_jsonb(OLD) ->> TG_ARGV[0]]
            ELSE ARRAY[to_jsonb(OLD) ->> TG_ARGV[0], to_jsonb(NEW) ->> TG_ARGV[0]]
        END LOOP
            IF belongs_to IS DISTINCT FROM parts[1] THEN
                RAISE EXCEPTION USING
                    ERRCODE = 'WL403',
                    MESSAGE = format('the token is for %s, a row of %I belongs to %s',
                                     parts[1], TG_TABLE_NAME, coalesce(belongs_to, 'no lease'));
            END IF;
        END LOOP;
    END IF;
    PERFORM worklease_fence(parts[1], parts[2]::bigint);
    IF TG_LEVEL = 'STATEMENT' THEN
        RETURN NULL;
    ELSIF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    RETURN NEW;
END
$trigger$;

-- Run with the rights of their owner, so that nobody who may be fenced can write a mark by hand. Hence the fixed
-- search_path, which puts temporary tables last, and no EXECUTE for everybody.
DO $secure$
BEGIN
    EXECUTE format('ALTER FUNCTION worklease_fence(text, bigint) SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION worklease_fence_trigger() SET search_path = %I, pg_temp', current_schema());
END
$secure$;
REVOKE EXECUTE ON FUNCTION worklease_fence(text, bigint), worklease_fence_trigger() FROM PUBLIC;
