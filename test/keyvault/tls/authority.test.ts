import "reflect-metadata";
import { X509Certificate } from "node:crypto";
import { copyFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as x509 from "@peculiar/x509";
import { expect, test } from "vitest";
import { createAuthority, issueCertificate } from "../../../keyvault/tls/authority.ts";
import { requireTls } from "../../../keyvault/tls/inventory.ts";
import { installTls } from "../../../keyvault/tls/issue.ts";
import { isTrusted, type TlsMaterial } from "../../../keyvault/tls/material.ts";

const validity = { notBefore: new Date(Date.now() - 3_600_000), notAfter: new Date(Date.now() + 3_600_000) };
const subject = { kind: "client", role: "admin", name: "mallory" } as const;

const trustIn = (...authorities: string[]): TlsMaterial => ({
  ca: Buffer.alloc(0),
  cert: Buffer.alloc(0),
  key: Buffer.alloc(0),
  authorities: authorities.map((pem) => new X509Certificate(pem)),
  revoked: new Set(),
});

test("an authority can issue client and server certificates but no further authorities", async () => {
  const { certificate } = await createAuthority(validity);
  const constraints = new x509.X509Certificate(certificate).getExtension(x509.BasicConstraintsExtension);
  expect(constraints).toMatchObject({ ca: true, pathLength: 0, critical: true });
});

test("isTrusted accepts only certificates signed by the authority itself, not by its clients or an authority of the same name", async () => {
  const authority = await createAuthority(validity);
  const client = await issueCertificate(authority, { ...subject, role: "api" }, validity);
  const namesake = await createAuthority(validity);
  const trusted = async (issuer: typeof authority) => {
    const { certificate } = await issueCertificate(issuer, subject, validity);
    return isTrusted(trustIn(authority.certificate), new X509Certificate(certificate));
  };
  expect(await trusted(authority)).toBe(true);
  expect(await trusted(client)).toBe(false);
  expect(await trusted(namesake)).toBe(false);
  const relabelled = { certificate: authority.certificate, privateKey: namesake.privateKey };
  expect(await trusted(relabelled), "the authority's certificate with another key").toBe(false);
});

test("requireTls rejects certificates in a folder with another vault's authority", async () => {
  const [own, other] = [
    await mkdtemp(join(tmpdir(), "keyvault-")),
    await mkdtemp(join(tmpdir(), "keyvault-")),
  ];
  for (const folder of [own, other]) await installTls(folder, ["localhost"], new Date());
  await requireTls(own);
  for (const file of ["ca.pem", "ca.key"]) await copyFile(join(other, file), join(own, file));
  await expect(requireTls(own)).rejects.toThrow(/server\.pem was not issued by the authority beside it/);
  for (const folder of [own, other]) await rm(folder, { recursive: true });
});
