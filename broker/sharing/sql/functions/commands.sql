-- A command for one member that runs, or with an asterisk for all. How many there are.
CREATE OR REPLACE FUNCTION send_command(command_id uuid, sender text, scope text, command_text text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    asked bigint;
BEGIN
    INSERT INTO command (id, member, epoch, sender, command)
        SELECT command_id, name, epoch, sender, command_text FROM member
            WHERE state = 'ACTIVE' AND (scope = '*' OR name = scope);
    GET DIAGNOSTICS asked = ROW_COUNT;
    PERFORM pg_notify(current_schema(), '@commands');
    RETURN asked;
END $$;

-- As `send_command`, for a user who is judged by each member. One of version 1 knows no users.
CREATE OR REPLACE FUNCTION send_command_of(
    of_user text, command_id uuid, sender text, scope text, command_text text
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    asked bigint;
    older text;
BEGIN
    asked := send_command(command_id, sender, scope, command_text);
    SELECT string_agg(known.name, ', ' ORDER BY known.name) INTO older
        FROM command JOIN member AS known ON known.name = command.member WHERE command.id = command_id AND known.version < 2;
    IF older IS NOT NULL THEN
        RAISE EXCEPTION '% is of an older release, which judges nobody', older USING ERRCODE = 'EM012';
    END IF;
    UPDATE command SET its_user = of_user WHERE id = command_id;
    RETURN asked;
END $$;

CREATE OR REPLACE FUNCTION answer_command(command_id uuid, asked text, its_replies jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE command SET replies = its_replies WHERE id = command_id AND member = asked;
    PERFORM pg_notify(current_schema(), '@commands');
END $$;
