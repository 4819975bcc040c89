BEGIN TRANSACTION;
CREATE TABLE counters (
	name VARCHAR(255) NOT NULL, 
	value BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
CREATE TABLE dynid_schema (
	id INTEGER NOT NULL, 
	version INTEGER NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "dynid_schema" VALUES(1,1);
CREATE TABLE events (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	at DATETIME NOT NULL, 
	kind VARCHAR(64) NOT NULL, 
	subject VARCHAR(64), 
	robot VARCHAR(255), 
	message TEXT NOT NULL, 
	details JSON NOT NULL
);
INSERT INTO "events" VALUES(1,'2026-11-30 12:00:00.000000','test.kept',NULL,NULL,'kept','{}');
CREATE TABLE feedforward_tables (
	id VARCHAR(64) NOT NULL, 
	robot VARCHAR(255) NOT NULL, 
	version INTEGER NOT NULL, 
	result_id VARCHAR(64) NOT NULL, 
	trajectory_id VARCHAR(64) NOT NULL, 
	cycle_time FLOAT NOT NULL, 
	samples INTEGER NOT NULL, 
	n_joints INTEGER NOT NULL, 
	crc32 BIGINT NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	torque BLOB NOT NULL, 
	current BLOB, 
	document JSON NOT NULL, 
	created_at DATETIME NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (robot, version), 
	FOREIGN KEY(result_id) REFERENCES results (id), 
	FOREIGN KEY(trajectory_id) REFERENCES trajectories (id)
);
CREATE TABLE jobs (
	id VARCHAR(64) NOT NULL, 
	kind VARCHAR(32) NOT NULL, 
	robot VARCHAR(255), 
	state VARCHAR(16) NOT NULL, 
	phase VARCHAR(255), 
	progress FLOAT NOT NULL, 
	request JSON NOT NULL, 
	result JSON, 
	error JSON, 
	created_at DATETIME NOT NULL, 
	started_at DATETIME, 
	ended_at DATETIME, 
	idempotency_key VARCHAR(255), 
	PRIMARY KEY (id), 
	UNIQUE (idempotency_key)
);
CREATE TABLE recordings (
	id VARCHAR(64) NOT NULL, 
	robot VARCHAR(255) NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	reason TEXT, 
	path TEXT NOT NULL, 
	sha256 VARCHAR(64), 
	bytes BIGINT, 
	samples BIGINT, 
	lost BIGINT, 
	lapped BIGINT, 
	started_at DATETIME NOT NULL, 
	ended_at DATETIME, 
	job_id VARCHAR(64), 
	model_digest VARCHAR(64), 
	details JSON NOT NULL, 
	PRIMARY KEY (id), 
	FOREIGN KEY(job_id) REFERENCES jobs (id)
);
CREATE TABLE results (
	id VARCHAR(64) NOT NULL, 
	robot VARCHAR(255) NOT NULL, 
	kind VARCHAR(32) NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	recording_ids JSON NOT NULL, 
	settings JSON NOT NULL, 
	document JSON NOT NULL, 
	validation JSON, 
	job_id VARCHAR(64), 
	created_at DATETIME NOT NULL, 
	activated_at DATETIME, 
	supersedes_id VARCHAR(64), 
	PRIMARY KEY (id), 
	FOREIGN KEY(job_id) REFERENCES jobs (id), 
	FOREIGN KEY(supersedes_id) REFERENCES results (id)
);
CREATE TABLE trajectories (
	id VARCHAR(64) NOT NULL, 
	name VARCHAR(255) NOT NULL, 
	robot VARCHAR(255), 
	n_joints INTEGER NOT NULL, 
	duration FLOAT NOT NULL, 
	definition JSON NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	created_at DATETIME NOT NULL, 
	PRIMARY KEY (id)
);
CREATE INDEX ix_trajectories_digest ON trajectories (digest);
CREATE INDEX ix_trajectories_robot ON trajectories (robot);
CREATE INDEX ix_jobs_robot ON jobs (robot);
CREATE INDEX ix_jobs_state ON jobs (state);
CREATE INDEX ix_events_subject ON events (subject);
CREATE INDEX ix_events_kind ON events (kind);
CREATE TRIGGER events_refuse_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER events_refuse_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE INDEX ix_recordings_robot ON recordings (robot);
CREATE INDEX ix_recordings_job_id ON recordings (job_id);
CREATE INDEX ix_recordings_state ON recordings (state);
CREATE INDEX ix_results_state ON results (state);
CREATE UNIQUE INDEX one_active_result_per_robot ON results (robot) WHERE state = 'active';
CREATE INDEX ix_results_robot ON results (robot);
CREATE INDEX ix_feedforward_tables_result_id ON feedforward_tables (result_id);
CREATE INDEX ix_feedforward_tables_trajectory_id ON feedforward_tables (trajectory_id);
CREATE INDEX ix_feedforward_tables_robot ON feedforward_tables (robot);
COMMIT;
