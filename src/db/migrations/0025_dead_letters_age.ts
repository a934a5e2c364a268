/** Dead letters are listed, sent again and removed by their age. */
export const deadLettersAge = {
  name: "0025_dead_letters_age",
  sql: `
create index dead_letters_age on dead_letters (created_at);
`,
};
