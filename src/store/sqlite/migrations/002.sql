-- Checksums, which tell data that a device or a person changed from what was written.

-- A CRC-32 over the other columns, with the key. Rows from before this version have none until they are written again.
ALTER TABLE scope ADD COLUMN sum INTEGER;
ALTER TABLE task ADD COLUMN sum INTEGER;
ALTER TABLE log ADD COLUMN sum INTEGER;
ALTER TABLE checkpoint ADD COLUMN sum INTEGER;

-- The first task that never had a row without a checksum.
ALTER TABLE meta ADD COLUMN summed_from INTEGER NOT NULL DEFAULT 1;
UPDATE meta SET summed_from =
  max(coalesce((SELECT max(pk) FROM task), 0), coalesce((SELECT max(k) >> 20 FROM log), 0)) + 1;
