import { writeRoleTable } from "./organizations/role_table.ts";
import { writeSchemaFiles } from "./support/schema_files.ts";

/**
 * `npm run schemas`: writes the schemas in `docs/events/` from the tables of events, and the table of roles
 * in `docs/organizations.md` from the operations.
 */
await writeSchemaFiles();
writeRoleTable();
