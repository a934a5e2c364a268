import { describe, expect, test } from "vitest";
import { contract } from "../http/walk/documented.ts";
import { declaredTable, documentedRows, documentedTable } from "./role_table.ts";

// role_calls.slow.test.ts calls every operation in this table.
describe("the role table in docs/organizations.md", () => {
  test("matches the roles that the operations declare", () => {
    expect(documentedTable()).toEqual(declaredTable());
  });

  test("contains the typical operations of each role", () => {
    const roles = new Map(documentedRows().map((row) => [row.operation, row.roles]));
    expect(roles.get("approve_delegation_request")).toEqual(["owner", "approver"]);
    expect(roles.get("rotate_api_key")).toEqual(["owner", "developer"]);
    expect(roles.get("invite_organization_member")).toEqual(["owner"]);
    const reading = contract.operations
      .filter(({ method }) => method === "GET")
      .map((one) => one.operationId);
    const ofAuditors = documentedRows().filter(
      (row) => row.roles !== "person" && row.roles.includes("auditor"),
    );
    const changing = ofAuditors.map((row) => row.operation).filter((id) => !reading.includes(id));
    expect(changing).toEqual(["leave_organization", "change_history_filters"]);
    const shut = documentedRows().filter((row) => row.roles !== "person" && !row.roles.includes("auditor"));
    expect(shut.map((row) => row.operation).filter((id) => reading.includes(id))).toEqual([]);
  });
});
