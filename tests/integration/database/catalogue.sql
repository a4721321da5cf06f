-- All that defines a schema, whatever the order of columns; what extensions brought is left out.
WITH own AS (
    SELECT c.oid, c.relname, c.relkind, c.reloptions FROM pg_class c
    WHERE c.relnamespace = 'public'::regnamespace
        AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
)
SELECT concat_ws(' ', relname, relkind, reloptions, pg_get_partkeydef(oid)) FROM own
UNION ALL
SELECT concat_ws(' ', relname, attname, format_type(atttypid, atttypmod), attnotnull, attstorage, attidentity,
    pg_get_expr(adbin, adrelid))
FROM own JOIN pg_attribute a ON attrelid = own.oid LEFT JOIN pg_attrdef ON adrelid = own.oid AND adnum = attnum
WHERE attnum > 0 AND NOT attisdropped AND relkind <> 'i' AND relkind <> 'I'
UNION ALL
SELECT concat_ws(' ', relname, conname, pg_get_constraintdef(c.oid)) FROM own JOIN pg_constraint c ON conrelid = own.oid
UNION ALL
SELECT pg_get_indexdef(indexrelid) FROM own JOIN pg_index ON indrelid = own.oid
UNION ALL
SELECT pg_get_triggerdef(t.oid) FROM own JOIN pg_trigger t ON tgrelid = own.oid WHERE NOT tgisinternal
UNION ALL
SELECT concat_ws(' ', relname, pg_get_viewdef(oid)) FROM own WHERE relkind = 'v'
UNION ALL
SELECT pg_get_functiondef(p.oid) FROM pg_proc p WHERE pronamespace = 'public'::regnamespace
    AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
UNION ALL
SELECT concat_ws(' ', own.relname, 'owned by', refobjid::regclass, refobjsubid > 0) FROM own
JOIN pg_depend ON objid = own.oid AND deptype IN ('a', 'i') WHERE relkind = 'S'
ORDER BY 1
