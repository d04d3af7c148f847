-- Who may do what with the old schema, its tables and sequences may do that with the new ones: with those that have the same
-- name; with others what holds of `properties`, or of `arrival`.
DO $$
DECLARE
    given record;
    behind text;
BEGIN
    FOR given IN
        SELECT format('SCHEMA %I', made.nspname) AS thing, acl.* FROM pg_namespace AS made, pg_namespace AS there,
               aclexplode(there.nspacl) AS acl
            WHERE made.oid = current_schema()::regnamespace AND there.oid = 'old'::regnamespace
            AND acl.grantee <> there.nspowner
        UNION ALL
        SELECT format('%s %I', CASE made.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, made.relname), acl.*
            FROM pg_class AS made, pg_class AS there, aclexplode(there.relacl) AS acl
            WHERE made.relnamespace = current_schema()::regnamespace AND made.relkind IN ('r', 'p', 'v', 'S')
            AND there.relnamespace = 'old'::regnamespace AND acl.grantee <> there.relowner
            AND there.relname = CASE
                WHEN to_regclass(format('old.%I', made.relname)) IS NOT NULL THEN made.relname
                WHEN made.relkind = 'S' THEN 'arrival' ELSE 'properties' END
    LOOP
        EXECUTE format('GRANT %s ON %s TO %s %s', given.privilege_type, given.thing,
            CASE WHEN given.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(given.grantee)) END,
            CASE WHEN given.is_grantable THEN 'WITH GRANT OPTION' ELSE '' END);
    END LOOP;
    FOR given IN
        SELECT defaclrole, defaclobjtype, acl.* FROM pg_default_acl, aclexplode(defaclacl) AS acl
            WHERE defaclnamespace = 'old'::regnamespace AND acl.grantee <> defaclrole
    LOOP
        behind := CASE given.defaclobjtype WHEN 'r' THEN 'TABLES' WHEN 'S' THEN 'SEQUENCES' WHEN 'f' THEN 'FUNCTIONS' ELSE 'TYPES' END;
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA %I GRANT %s ON %s TO %s', pg_get_userbyid(given.defaclrole),
            current_schema(), given.privilege_type, behind,
            CASE WHEN given.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(given.grantee)) END);
    END LOOP;
END $$;
