import type Koa from "koa";
import type { DeliveredMail, Mailbox } from "../accounts/mail/mail.ts";
import { ApiError } from "../errors.ts";
import { type Html, html, inlineStyle, renderDocument } from "../html/html.ts";

const PATH = "/dev/mailbox";
const LOOPBACK_HOST = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/i;
const ELSEWHERE = "The mailbox is available only at localhost, 127.0.0.1 and [::1]";

/**
 * Serves `GET /dev/mailbox`: the messages of the development mailbox, newest first, as a page or JSON.
 *
 * Anybody who can open the mailbox can sign in as any account. So it is mounted in development only, and
 * answers only under host names that always mean this machine. A website whose name was made to resolve to
 * this machine cannot read it. Any other host gets `not_found`.
 */
export function mailboxPage(mailbox: Pick<Mailbox, "list">): Koa.Middleware {
  return async (ctx, next) => {
    if (ctx.path !== PATH || ctx.method !== "GET") return next();
    if (!LOOPBACK_HOST.test(ctx.req.headers.host ?? "")) throw new ApiError("not_found", ELSEWHERE);
    const mails = mailbox.list();
    if (ctx.accepts("html", "json") === "json") {
      ctx.body = { mails: mails.map(({ sentAt, ...mail }) => ({ ...mail, sent_at: sentAt.toISOString() })) };
      return;
    }
    ctx.set(
      "content-security-policy",
      "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    );
    ctx.type = "html";
    ctx.body = page(mails);
  };
}

const STYLE = `
body { font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; background: #fff }
article { border-top: 1px solid #ccc; padding: 1rem 0 }
pre { font: inherit; white-space: pre-wrap; margin: .5rem 0 0 }
time { color: #595959 }
@media (prefers-color-scheme: dark) { body { color: #eee; background: #121212 } article { border-color: #444 } time { color: #aaa } }
`;

function page(mails: readonly DeliveredMail[]): string {
  const list = mails.length === 0 ? html`<p>No mail yet.</p>` : mails.map(article);
  return renderDocument(html`<html lang="en">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width" />
<meta http-equiv="refresh" content="5" />
<title>Development mailbox</title>
${inlineStyle(STYLE)}
</head>
<body>
<h1>Development mailbox</h1>
<p>Mail that was not sent, because no SMTP server is set. The page reloads automatically.</p>
${list}
</body>
</html>`);
}

function article({ to, subject, text, sentAt }: DeliveredMail): Html {
  const time = sentAt.toISOString();
  return html`<article>
<h2>${subject}</h2>
<div>to ${to}, <time datetime="${time}">${time}</time></div>
<pre>${text}</pre>
</article>`;
}
