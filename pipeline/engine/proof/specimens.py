"""Characters, words and sentences that the fuzz texts are made of."""

from __future__ import annotations

RUN_CHARACTERS = " \n\t\r.-=_*#!?/\\'\"aAeéz0179日あ가й\u0301\u200d\u00a0\u3000😀\u0000\ufffd▁"
SPACES = (
    *(" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n", "\n ", ""),
    *("\u00a0", "\u3000", "\u2028", "\x0b", "\x85"),
)
SCRIPTS = (
    "abcdefghijklmnopqrstuvwxyz",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "àâäçéèêëîïôöùûüÿñßøåæœłżžščřďťňŞşİıĞğ",
    "абвгдеёжзийклмнопрстуфхцчшщъыьэюяїєґЁЖ",
    "αβγδεζηθικλμνξοπρσςτυφχψωΑΣΩάέήίόύώ",
    "אבגדהוזחטיכלמנסעפצקרשתםןץףך\u05b0\u05b8\u05bc",
    "ابتثجحخدذرزسشصضطظعغفقكلمنهويءآأؤإئ\u064b\u064e\u0651",
    "अआइईउऊएकखगघचछजझटडतदनपबमयरलवशसह\u093e\u093f\u0940\u094d\u093c",
    "กขคงจชซดตถทนบปผพมยรลวสหอ\u0e31\u0e34\u0e48\u0e49",
    "的一是不了人我在有他这中大来上国個說時要就出會",
    "あいうえおかきくけこがぎぐアイウエオカキクケコガパ\u3099ー",
    "가나다라마바사아자차카타파하각한글\u1100\u1161\u11a8\u1112\u1175",
    "0123456789٠١٢٣०१२३①②½¼²³Ⅳ০১",
    "😀😂👍🏽🇩🇪🇺🇸👨\u200d👩\u200d👧❤\ufe0f🏳\u200d🌈1\ufe0f\u20e3",
    "a\u0301e\u0308o\u0302\u0323n\u0303s\u0323\u0307q\u0307\u0323A\u030aﬁﬀℌ\u212b\u2126\u212a①ｆｕｌｌ\ufb03",
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~¡¿«»“”‘’–—…€£¥§°±×÷",
    "\x00\x01\x07\x08\x0b\x0c\x1b\x7f\x85\xad\u200b\u200e\u202e\u2060\ufeff\ufffd\ufffe\ue000",
)
SNIPPETS = (
    *(
        "don't",
        "I'll",
        "we've",
        "it's",
        "I'M",
        "he'D",
        "they'RE",
        "'s",
        "'S",
        "’s",
        "x'ſ",
        "'T's'll",
    ),
    *("1", "12", "123", "1234", "12345678901234567890", "3.14159", "1,234,567.89", "1e-10", "0xFF"),
    *("...", "!!!", "?!", "--", "----", "=====", "/**", "*/", "://", "</div>", "<br/>", "{{", "}}"),
    *(
        "def f(x):\n    return x\n",
        "\tif (a==b) {\r\n",
        "for(int i=0;i<10;++i)",
        "#include <x.h>\n",
    ),
    *(
        "foo_bar",
        "fooBar",
        "FooBAR",
        "FOO_BAR",
        "a.b.c",
        "x->y",
        "@user",
        "#tag",
        "C:\\x\\y",
        "~/.x",
    ),
    *("http://example.com/a?b=c&d=%20", "me@example.com", "2024-01-31T12:00:00Z", "$1.00", "100%"),
    *(
        "<s>",
        "</s>",
        "<unk>",
        "[UNK]",
        "[CLS]",
        "<|endoftext|>",
        "<pad>",
        "<0x0A>",
        "##ing",
        "▁the",
    ),
    *(
        "the",
        "The",
        "THE",
        "tokenization",
        "antidisestablishmentarianism",
        "über",
        "naïve",
        "Straße",
    ),
    *(
        "Здравствуйте",
        "Γειά",
        "שלום",
        "مرحبا",
        "नमस्ते",
        "สวัสดี",
        "你好世界",
        "こんにちは",
        "안녕하세요",
    ),
)
PROSE = (
    (
        "It was late in the autumn when the letter came, and nobody in the house could say who had "
        "written it or why the seal had been broken before it reached the door. "
    ),
    (
        "The committee reviewed 1,204 applications in 2019; of these, 37% were accepted without "
        "changes, and the rest didn't pass the first round. "
    ),
    (
        "def read_lines(path):\n    with open(path, encoding='utf-8') as f:\n"
        "        for i, line in enumerate(f):\n            yield i, line.rstrip()\n\n"
    ),
    (
        "Les enfants jouaient près de la rivière pendant que leurs parents préparaient le déjeuner "
        "à l'ombre des vieux chênes. "
    ),
    "Вчера вечером мы долго говорили о том, как изменился город за последние двадцать лет. ",
    "この町では毎年夏になると大きな祭りが開かれ、多くの人が集まります。",
    "这个问题比我们想象的要复杂得多，需要更多的时间来研究。",
    "User: How do I reset my password?\nAssistant: Open Settings > Account, then “Reset”.\n",
)
