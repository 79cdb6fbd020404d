-- Organizations take turns at work that is due: the next one that has some is found without reading all of it.
CREATE INDEX export_run_by_turn ON export_run (organization_id, due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX pipeline_config_by_turn ON pipeline_config (organization_id, due_at, id) WHERE due_at IS NOT NULL;
DROP INDEX pipeline_task_of_organization;
CREATE INDEX pipeline_task_by_turn ON pipeline_task (organization_id, due_at);
DROP INDEX pipeline_task_of_config;
CREATE INDEX pipeline_task_of_config ON pipeline_task (config_id, due_at, id);
-- Those that are being carried out.
CREATE INDEX pipeline_task_held ON pipeline_task (config_id, due_at) WHERE worker IS NOT NULL;

-- Each job moves this on. One that is queued while this is too far ahead of time has to wait.
ALTER TABLE pipeline_config ADD COLUMN jobs_until TEXT;
