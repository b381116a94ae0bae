-- SPDX-License-Identifier: Apache-2.0
-- What the store has in PostgreSQL beside the schema that it has in SQLite (postgres_dialect.h): the
-- functions that only SQLite has, a view, and the hosts that share the store.

CREATE FUNCTION unixepoch() RETURNS BIGINT LANGUAGE sql STABLE
  RETURN extract(epoch FROM now())::bigint;
CREATE FUNCTION datetime(BIGINT, TEXT) RETURNS TIMESTAMP LANGUAGE sql IMMUTABLE
  RETURN to_timestamp($1) AT TIME ZONE 'UTC';
CREATE FUNCTION iif(BOOLEAN, ANYELEMENT, ANYELEMENT) RETURNS ANYELEMENT LANGUAGE sql IMMUTABLE
  AS 'SELECT CASE WHEN $1 THEN $2 ELSE $3 END';
CREATE FUNCTION max(BIGINT, BIGINT) RETURNS BIGINT LANGUAGE sql IMMUTABLE RETURN greatest($1, $2);

CREATE FUNCTION json_valid(TEXT) RETURNS BIGINT LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  PERFORM $1::json;
  RETURN 1;
EXCEPTION WHEN OTHERS THEN
  RETURN 0;
END $$;
CREATE FUNCTION json_array_length(TEXT) RETURNS BIGINT LANGUAGE sql IMMUTABLE
  AS 'SELECT json_array_length($1::json)::bigint';
CREATE FUNCTION json_each(TEXT) RETURNS TABLE (value BIGINT, type TEXT) LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN is_integer THEN element::bigint END, CASE WHEN is_integer THEN 'integer' END
  FROM (SELECT element, element ~ '^-?[0-9]{1,18}$' AS is_integer
        FROM json_array_elements_text($1::json) AS element) AS elements
$$;
CREATE AGGREGATE json_group_array(JSON) (
  SFUNC = array_append, STYPE = JSON[], FINALFUNC = array_to_json, INITCOND = '{}');
-- From version 16 on json_array(...) is the standard's, and this is not called.
CREATE FUNCTION "json_array"(TEXT, DOUBLE PRECISION) RETURNS JSON LANGUAGE sql IMMUTABLE
  AS 'SELECT json_build_array($1, $2)';

-- After the tables.

CREATE VIEW current_record AS
SELECT DISTINCT ON (trial_key.kernel_hash, trial_key.dims, trial_key.dtype, trial_key.device_name,
                    trial_key.target, trial_key.cache_mode, trial_key.include_digest,
                    sweep.name_space)
       record.id, record.trial_id, record.default_latency_ns, record.tie_count,
       record.published_unix_ms, record.artifact
FROM record
JOIN trial ON trial.id = record.trial_id
JOIN trial_key ON trial_key.id = trial.key_id
JOIN sweep ON sweep.id = trial.sweep_id
ORDER BY trial_key.kernel_hash, trial_key.dims, trial_key.dtype, trial_key.device_name,
         trial_key.target, trial_key.cache_mode, trial_key.include_digest, sweep.name_space,
         record.id DESC;
