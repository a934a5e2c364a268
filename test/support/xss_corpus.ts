/** Strings that an attacker may put into a field. Every page must show them as text. */
export const XSS_CORPUS: readonly string[] = [
  "<script>globalThis.stolen = 1</script>",
  "</title><script>globalThis.stolen = 1</script>",
  '"><img src=x onerror="globalThis.stolen = 1">',
  "'><svg/onload=globalThis.stolen=1>",
  "</textarea><iframe srcdoc='<script>top.stolen=1</script>'>",
  '" autofocus onfocus="globalThis.stolen = 1',
  "' onmouseover='globalThis.stolen = 1' x='",
  '<a href="javascript:globalThis.stolen=1">click</a>',
  "<math><mtext></table><img src=x onerror=globalThis.stolen=1>",
  "<!--><img src=x onerror=globalThis.stolen=1>-->",
  "]]><script>globalThis.stolen = 1</script>",
  "<style>body { display: none }</style>",
  "<base href=//attacker.example><form action=//attacker.example><input name=q>",
  "<meta http-equiv=refresh content='0;url=//attacker.example'>",
  "<div hx-get=/v1/auth/session hx-trigger=load hx-on:load=globalThis.stolen=1>",
  // biome-ignore lint/suspicious/noTemplateCurlyInString: other people's templates
  "${globalThis.stolen = 1}{{constructor.constructor('globalThis.stolen=1')()}}",
  "&lt;script&gt;globalThis.stolen = 1&lt;/script&gt;",
  "+ADw-script+AD4-globalThis.stolen=1+ADw-/script+AD4-",
  "\u202e<b>txt.exe\u2066",
];

/** URLs that no page may use as a link. */
export const HOSTILE_ADDRESSES: readonly string[] = [
  "javascript:globalThis.stolen=1",
  "JaVaScRiPt:globalThis.stolen=1",
  " javascript:globalThis.stolen=1",
  "java\tscript:globalThis.stolen=1",
  "java\nscript:globalThis.stolen=1",
  "\u0001javascript:globalThis.stolen=1",
  "data:text/html,<script>globalThis.stolen=1</script>",
  "vbscript:msgbox(1)",
  "blob:https://attacker.example/1",
  "file:///etc/passwd",
  "//attacker.example/",
  "/\\attacker.example/",
  "\\\\attacker.example/",
  "/\t/attacker.example/",
  "https:attacker.example",
  "https:///attacker.example",
  "view-source:javascript:1",
];
