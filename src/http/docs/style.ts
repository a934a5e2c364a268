/** The page's style sheet, for light and dark mode. It loads no font or image. */
export const STYLE = `
:root { color-scheme: light dark; --text: #1b1f24; --quiet: #57606a; --paper: #fff; --panel: #f4f6f8; --line: #d0d7de; --link: #0550ae; --get: #0550ae; --post: #116329; --put: #7d4e00; --delete: #a40e26 }
@media (prefers-color-scheme: dark) { :root { --text: #e6edf3; --quiet: #9da7b3; --paper: #0d1117; --panel: #161b22; --line: #30363d; --link: #79b8ff; --get: #79b8ff; --post: #7ee787; --put: #f0b95b; --delete: #ff9a92 } }
* { box-sizing: border-box }
html { scroll-padding-top: 1rem }
body { margin: 0; font: 16px/1.55 system-ui, sans-serif; color: var(--text); background: var(--paper) }
a { color: var(--link) }
a:focus-visible, summary:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; border-radius: 2px }
.skip { position: absolute; left: -99rem }
.skip:focus { left: 1rem; top: 1rem; padding: .5rem 1rem; background: var(--paper); z-index: 1 }
.page { max-width: 84rem; margin: 0 auto; display: grid; grid-template-columns: 19rem minmax(0, 1fr); gap: 2.5rem; padding: 0 1.5rem }
nav { position: sticky; top: 0; align-self: start; max-height: 100vh; overflow-y: auto; padding: 1.5rem 0; font-size: .875rem }
nav h2 { font-size: .8125rem; margin: 1.25rem 0 .25rem; color: var(--quiet) }
nav ul { list-style: none; margin: 0; padding: 0 }
nav a { display: block; padding: .2rem .25rem; text-decoration: none; overflow-wrap: anywhere }
nav a:hover { text-decoration: underline }
main { padding: 1.5rem 0 4rem }
h1 { margin: 0; font-size: 2rem }
h2 { margin: 3.5rem 0 .5rem; font-size: 1.5rem }
h3 { margin: 0; font-size: 1.125rem }
h4 { margin: 1.25rem 0 .25rem; font-size: .9375rem }
p { margin: .25rem 0 }
.quiet { color: var(--quiet) }
article { margin: 1.5rem 0; padding: 1.25rem; border: 1px solid var(--line); border-radius: 8px }
.call { font: 600 .9375rem/1.5 ui-monospace, monospace; overflow-wrap: anywhere; margin: .25rem 0 }
.method { color: var(--get) }
.post { color: var(--post) } .put, .patch { color: var(--put) } .delete { color: var(--delete) }
code, pre { font: .875em/1.5 ui-monospace, monospace }
code { background: var(--panel); padding: .1em .3em; border-radius: 4px; overflow-wrap: anywhere }
pre { background: var(--panel); border-radius: 6px; padding: .75rem 1rem; margin: .5rem 0; white-space: pre-wrap; overflow-wrap: anywhere }
dl { margin: .25rem 0; display: grid; grid-template-columns: minmax(8rem, 14rem) minmax(0, 1fr); gap: .375rem 1rem }
.nested dl { grid-template-columns: minmax(0, 1fr); gap: 0 } .nested dd { margin-bottom: .375rem }
dt { overflow-wrap: anywhere } dd { margin: 0 }
dd p { display: inline }
details { border-top: 1px solid var(--line); padding: .5rem 0 }
summary { cursor: pointer }
summary p { display: inline }
.nested { border-left: 2px solid var(--line); padding-left: 1rem; margin: .25rem 0 }
@media (max-width: 60rem) {
  .page { display: block; padding: 0 1rem }
  nav { position: static; max-height: none; padding-bottom: 0 }
  article { padding: 1rem }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0 } dd { margin-bottom: .5rem }
}
`;
