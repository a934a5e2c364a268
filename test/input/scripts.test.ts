import { describe, expect, test } from "vitest";
import { isOneScript } from "../../src/input/scripts.ts";

describe("the check of a name's scripts", () => {
  test.each([
    ["Latin", "Ünïté & Söhne № 7, 50 %"],
    ["Vietnamese", "Nguyễn Việt"],
    ["Greek", "Ελληνικό Κατάστημα 24"],
    ["Cyrillic", "Магазин «Книги»"],
    ["Armenian", "Խանութ"],
    ["Georgian", "მაღაზია"],
    ["Arabic", "متجر الكتب ٢٤"],
    ["Persian with a non-joiner", "می\u200cخواهم"],
    ["Hebrew", "חנות ספרים"],
    ["Hindi", "किताबों की दुकान।"],
    ["Bengali", "বইয়ের দোকান"],
    ["Tamil", "புத்தகக் கடை"],
    ["Thai", "ร้านหนังสือ"],
    ["Khmer", "ហាងសៀវភៅ"],
    ["Amharic", "የመጻሕፍት መደብር"],
    ["Cherokee", "ᏣᎳᎩ"],
    ["Chinese", "书店 24 小时"],
    ["Chinese with Bopomofo and Latin", "書店ㄅㄆ Books"],
    ["Japanese with Latin", "ブックショップ たろう 書店 Books ー"],
    ["Korean with Han and Latin", "서점 書店 Books"],
    ["Hausa", "Ɗakin littattafai ƙwarai ɓoyayye"],
    ["Ewe", "Agbalẽdzraƒe ɖeka ŋutɔ"],
    ["Azerbaijani", "Kitab mağazası ə"],
    ["an emoji", "Shop 👩\u200d💻❤\ufe0f"],
    ["full-width letters in a Japanese name", "ＡＢＣ書店"],
    ["half-width katakana", "ﾌﾞｯｸ Books"],
    ["a Japanese abbreviation", "㈱書店"],
    ["abbreviations", "Nº 1ª № 7 Shop™"],
    ["a fraction and a superscript", "½ m² …"],
    ["only digits", "24-7"],
    ["nothing", ""],
  ])("accepts %s", (_, name) => {
    expect(isOneScript(name)).toBe(true);
    expect(isOneScript(name.normalize("NFD"))).toBe(true);
  });

  test.each([
    ["a Cyrillic а", "pay\u0430l"],
    ["a Greek omicron", "g\u03bfogle"],
    ["an Armenian oh", "g\u0585ogle"],
    ["Cherokee capitals", "\u13e2AYPAL"],
    ["Lisu capitals", "\ua4d0ank"],
    ["Cyrillic and Greek", "\u0411\u03b1\u043d\u043a"],
    ["mathematical Latin beside Cyrillic", "\u{1d5c9}\u0430\u{1d5d2}"],
    ["a Cyrillic combining letter", "pa\u2de0ypal"],
    ["Hangul and kana", "서점 たろう"],
    ["a mathematical letter", "p\u{1d41a}ypal"],
    ["only mathematical letters", "\u{1d429}\u{1d41a}\u{1d432}"],
    ["a circled letter", "p\u24d0ypal"],
    ["a squared letter", "\u{1f13f}aypal"],
    ["only full-width letters", "ｐａｙｐａｌ"],
    ["a full-width letter", "p\uff41ypal"],
    ["a ligature", "\ufb01sh"],
    ["a long s", "\u017fhop"],
    ["a letter of a number set", "\u2115ews"],
    ["a styled Greek letter", "\u{1d6fc}\u03b2"],
    ["a superscript letter", "shop\u207f"],
    ["a Latin alpha", "p\u0251ypal"],
    ["a Latin small capital", "P\u1d00YPAL"],
    ["a click letter", "paypa\u01c0"],
    ["an Arabic stretch", "\u0645\u0640\u062a\u062c\u0631"],
    ["Latin and Cyrillic in separate words", "Bank \u0421\u0431\u0435\u0440"],
  ])("rejects %s", (_, name) => {
    expect(isOneScript(name)).toBe(false);
  });
});
