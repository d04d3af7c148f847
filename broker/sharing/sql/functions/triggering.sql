-- What a member must know of a queue to judge its trigger conditions (triggers 4): up to `enough` available messages
-- that come before `boundary`, those handles for input that other members have open, and whether any is exclusive.
CREATE OR REPLACE FUNCTION trigger_census(
    me text, q_name text, boundary bigint, enough bigint, OUT qualifying bigint, OUT elsewhere bigint, OUT exclusive boolean
) LANGUAGE plpgsql STABLE AS $$
BEGIN
    qualifying := (SELECT count(*) FROM (SELECT 1 FROM message WHERE queue = q_name AND state = 1 AND place < boundary
                                         ORDER BY place LIMIT enough) AS counted);
    elsewhere := (SELECT count(*) FROM handle WHERE queue = q_name AND input AND member <> me);
    exclusive := EXISTS (SELECT FROM handle WHERE queue = q_name AND handle.exclusive);
END $$;

-- Messages that members have put which are gone count at this one from now on (queue-sharing rule 10.3.10): up to
-- `wanted` of those that are available behind `after` and before `boundary`. How many, and where the last of them stands.
CREATE OR REPLACE FUNCTION adopt_messages(
    q_name text, after bigint, boundary bigint, wanted integer, OUT adopted bigint, OUT last bigint
) LANGUAGE plpgsql AS $$
DECLARE
    ps tid[];
    ns tid[];
BEGIN
    SELECT array_agg(f.ctid) FILTER (WHERE f.persistent), array_agg(f.ctid) FILTER (WHERE NOT f.persistent),
           count(*), max(f.place) INTO ps, ns, adopted, last
        FROM (SELECT ctid, persistent, place FROM message WHERE queue = q_name AND state = 1 AND place > after
              AND place < boundary AND put_by NOT IN (SELECT name FROM member WHERE member.state = 'ACTIVE')
              ORDER BY place LIMIT wanted FOR UPDATE SKIP LOCKED) AS f;
    UPDATE message_persistent SET put_by = current_setting('evermq.member') WHERE ctid = ANY (ps);
    UPDATE message_nonpersistent SET put_by = current_setting('evermq.member') WHERE ctid = ANY (ns);
END $$;
