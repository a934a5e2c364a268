/** Which way events take, and what Kafka brought that was put aside. */
export const eventCarriers = {
  name: "0022_event_carriers",
  sql: `
-- The way that the workers were started with last.
create table event_way (
  single boolean primary key default true check (single),
  way text not null check (way in ('embedded', 'kafka'))
);
insert into event_way (way) values ('embedded');

-- Topic, partition and offset that it was brought from; null where nothing brought it from afar.
alter table dead_letters add column origin jsonb;
-- Since when the topic of dead letters has it too.
alter table dead_letters add column carried_at timestamptz;
create index dead_letters_uncarried on dead_letters (created_at) where carried_at is null;
`,
};
