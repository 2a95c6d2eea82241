// An editor for Python, in the colours of the page.
import { indentWithTab, defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState, StateEffect, StateField } from "@codemirror/state";
import { Decoration, drawSelection, EditorView, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const variable = (name) => ({ color: `var(--md-code-hl-${name}-color)` });
const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.controlKeyword, tags.definitionKeyword, tags.moduleKeyword], ...variable("keyword") },
  { tag: [tags.string, tags.special(tags.string)], ...variable("string") },
  { tag: tags.number, ...variable("number") },
  { tag: [tags.comment, tags.lineComment], ...variable("comment") },
  { tag: [tags.function(tags.variableName), tags.function(tags.definition(tags.variableName))], ...variable("function") },
  { tag: [tags.operator, tags.arithmeticOperator], ...variable("operator") },
  { tag: [tags.bool, tags.null], ...variable("constant") },
]);

const failed = StateEffect.define(); // the number of the line, or null
const failedLine = StateField.define({
  create: () => Decoration.none,
  update(shown, transaction) {
    for (const effect of transaction.effects) {
      if (!effect.is(failed)) continue;
      if (!effect.value || effect.value > transaction.state.doc.lines) return Decoration.none;
      const { from } = transaction.state.doc.line(effect.value);
      return Decoration.set([Decoration.line({ class: "cr-failed-line" }).range(from)]);
    }
    return shown.map(transaction.changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

export function editor(parent, text, { changed, keys = [], label = "Program" }) {
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        indentOnInput(),
        indentUnit.of("    "),
        bracketMatching(),
        python(),
        failedLine,
        syntaxHighlighting(colours),
        keymap.of([...keys, ...defaultKeymap, ...historyKeymap, indentWithTab]),
        // what has to be scrolled has to be reached by the keyboard, in Safari by a tabindex alone
        EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false", tabindex: "0" }),
        EditorView.updateListener.of((update) => update.docChanged && changed?.()),
      ],
    }),
  });
  return {
    get text() {
      return view.state.doc.toString();
    },
    set text(value) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: value } });
    },
    // Marks the line where a program failed; null marks none.
    fail: (line) => view.dispatch({ effects: failed.of(line) }),
  };
}
