/** The anchors of a page's headings, as they are made for links. */
export function anchorsOf(page: string): string[] {
  return [...page.matchAll(/^#{1,6} (.*)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, "")
      .replaceAll(" ", "-"),
  );
}
