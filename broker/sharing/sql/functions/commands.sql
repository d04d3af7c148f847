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

CREATE OR REPLACE FUNCTION answer_command(command_id uuid, asked text, its_replies jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE command SET replies = its_replies WHERE id = command_id AND member = asked;
    PERFORM pg_notify(current_schema(), '@commands');
END $$;
