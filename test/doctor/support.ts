import { type Check, type Row, runChecks } from "../../src/doctor/check.ts";
import { type DoctorDeps, type DoctorOptions, runDoctor } from "../../src/doctor/doctor.ts";
import { type DoctorRole, type Environment, readSettings } from "../../src/doctor/settings.ts";

/** Runs checks with the settings of the roles in an environment, and returns their rows by name. */
export async function rowsOf(
  checks: readonly Check[],
  environment: Environment,
  { roles = ["api"], now = () => new Date() }: { roles?: DoctorRole[]; now?: () => Date } = {},
): Promise<Record<string, Row>> {
  const rows = await runChecks(checks, readSettings(roles, environment), { now });
  return Object.fromEntries(rows.map((row) => [row.name, row]));
}

/** Runs the command, and returns its output and exit status. */
export async function doctor(
  options: Partial<DoctorOptions>,
  { isTTY = false, ...deps }: DoctorDeps & { isTTY?: boolean },
): Promise<{ text: string; status: number }> {
  let text = "";
  const write = (chunk: string) => {
    text += chunk;
  };
  const status = await runDoctor(
    { roles: [], egress: "none", ...options },
    { ...deps, out: { write, isTTY } },
  );
  return { text, status };
}
