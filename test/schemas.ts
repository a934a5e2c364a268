import { writeSchemaFiles } from "./support/schema_files.ts";

/** `npm run schemas`: writes the schemas in `docs/events/` anew, from the tables of events. */
await writeSchemaFiles();
