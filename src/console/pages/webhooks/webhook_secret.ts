import { type Html, html, prose } from "../../../html/html.ts";
import { type Outcome, page, type Visit } from "../../core/page.ts";
import { selectField } from "../../elements/fields.ts";
import { form } from "../../elements/form.ts";
import { onceOnly, shownOnce } from "../../elements/secrets.ts";
import { badge, copyBlock, facts, time, titleWith } from "../../elements/values.ts";
import { loadTest, TEST_OPERATIONS, testButton, testForm, testResult } from "./attempts.ts";
import { type CallbackAnswer, loadCallback, partAddress, parts } from "./parts.ts";

const PART = "/webhook-secret";
const DAY = "86400";

type Shown = Awaited<ReturnType<typeof load>>;

/** The page that replaces a webhook secret in two phases. */
export const webhookSecretPage = page<Shown>({
  id: "webhook_secret",
  path: "/console/connections/{connection_id}/webhook-secret",
  operations: ["get_callback", "rotate_webhook_secret", "promote_webhook_secret", ...TEST_OPERATIONS],
  load,
  title: ({ texts }, { callback }) => titleWith(texts.webhookSecret.title, callback.platform_name),
  render: (visit, { callback, test }) => html`${parts(visit, callback)}
    <p class="lead">${visit.texts.webhookSecret.lead}</p>
    ${phase(visit, callback)}
    ${testResult(visit, test)}
    ${callback.next_secret_waits ? html`${atReceiver(visit, callback)}${promotion(visit, callback)}${anotherSecret(visit)}` : first(visit)}`,
  forms: {
    rotate: {
      submit: (visit) =>
        onceOnly(() => rotate(visit), {
          title: visit.texts.webhookSecret.onceTitle,
          explain: visit.texts.webhookSecret.onceMade,
          links: [
            html`<a class="button" href=${partAddress(visit, PART)}>${visit.texts.webhookSecret.back}</a>`,
          ],
        }),
    },
    test: testForm(PART),
    promote: {
      async submit(visit, fields) {
        const body = { grace_seconds: Number(fields.get("grace_seconds")) };
        await visit.call("promote_webhook_secret", { params: idOf(visit), body, once: true });
        return { to: partAddress(visit, PART), notice: "secret_promoted" };
      },
    },
  },
});

function idOf({ params }: Visit) {
  return { connection_id: params.connection_id ?? "" };
}

async function load(visit: Visit) {
  const [callback, test] = await Promise.all([loadCallback(visit), loadTest(visit)]);
  return { callback, test };
}

/** Creates a secret and returns the only page that shows the secret. */
async function rotate(visit: Visit): Promise<Outcome> {
  const { webhook_signing_secret: secret } = await visit.call("rotate_webhook_secret", {
    params: idOf(visit),
    once: true,
  });
  const { texts } = visit;
  const words = texts.webhookSecret;
  return {
    title: words.madeTitle,
    content: html`${shownOnce(texts, { id: "secret", label: words.made, text: secret, file: "webhook_secret.txt" })}
      <p>${words.madeNext}</p>
      <p class="actions"><a class="button" href=${partAddress(visit, PART)}>${words.goOn}</a></p>`,
  };
}

function phase({ texts }: Visit, callback: CallbackAnswer): Html {
  const words = texts.webhookSecret;
  const { next_secret_waits, next_secret_at, former_secret_until, is_declared } = callback;
  const now = next_secret_waits ? "waits" : former_secret_until === null ? "one" : "grace";
  return html`<section class="card"><h2>${words.phase}</h2>
    <p>${badge(words.phases[now], now === "one" ? "good" : "warn")}</p>
    <p>${words.explain[now]}</p>
    ${facts([
      next_secret_at !== null && [words.since, time(next_secret_at)],
      former_secret_until !== null && [words.formerUntil, time(former_secret_until)],
    ])}
    ${is_declared && html`<p class="notice">${words.declared}</p>`}</section>`;
}

function first(visit: Visit): Html | undefined {
  const words = visit.texts.webhookSecret;
  if (!visit.may("rotate_webhook_secret")) return undefined;
  return html`<section class="card"><h2>${words.step1}</h2><p>${words.step1Lead}</p>
    ${form(visit, { name: "rotate", submit: words.rotate, once: true })}
    <ul class="plain-list quiet"><li>${words.step2}</li><li>${words.step3}</li></ul></section>`;
}

function atReceiver(visit: Visit, callback: CallbackAnswer): Html {
  const words = visit.texts.webhookSecret;
  return html`<section class="card"><h2>${words.step2}</h2><p>${words.step2Lead}</p>
    <details><summary>${words.sample}</summary><p>${words.sampleHint}</p>
      ${copyBlock(visit.texts, { id: "sample", text: signatureSample(visit.outside.header) })}</details>
    <p>${words.step2Test}</p>
    ${testButton(visit, callback)}</section>`;
}

function promotion(visit: Visit, { former_secret_until }: CallbackAnswer): Html | undefined {
  const words = visit.texts.webhookSecret;
  if (!visit.may("promote_webhook_secret")) return undefined;
  return html`<section class="card"><h2>${words.step3}</h2>
    ${prose(words.step3Lead(visit.outside.header("X-Service-Signature")))}
    ${former_secret_until !== null && html`<p class="notice">${words.formerEnds}</p>`}
    ${form(visit, {
      name: "promote",
      once: true,
      content: selectField(visit, {
        form: "promote",
        name: "grace_seconds",
        label: words.grace,
        value: DAY,
        choices: words.graces.map(([value, label]) => ({ value, label })),
      }),
      submit: words.promote,
    })}</section>`;
}

function anotherSecret(visit: Visit): Html | undefined {
  const words = visit.texts.webhookSecret;
  if (!visit.may("rotate_webhook_secret")) return undefined;
  return html`<section class="card"><h2>${words.againTitle}</h2><p>${words.againLead}</p>
    ${form(visit, { name: "rotate", submit: words.again, tone: "quiet", once: true })}</section>`;
}

/** Returns sample code for a receiver, which accepts signatures by either of two secrets. */
function signatureSample(header: (name: string) => string): string {
  const name = (each: string) => header(each).toLowerCase();
  return `import { createHmac, timingSafeEqual } from "node:crypto";

const { WEBHOOK_SECRET, WEBHOOK_SECRET_NEXT } = process.env;
const secrets = [WEBHOOK_SECRET, WEBHOOK_SECRET_NEXT].filter(Boolean);

export function isGenuine(headers, body) {
  const at = String(headers["${name("X-Service-Timestamp")}"]);
  const given = Buffer.from(String(headers["${name("X-Service-Signature")}"]));
  const isSignedWith = (secret) => {
    const signature = createHmac("sha256", secret).update(\`\${at}.\`).update(body).digest("hex");
    const expected = Buffer.from(signature);
    return expected.length === given.length && timingSafeEqual(expected, given);
  };
  const isFresh = Math.abs(Date.now() / 1000 - Number(at)) < 300;
  return isFresh && secrets.some(isSignedWith);
}
`;
}
