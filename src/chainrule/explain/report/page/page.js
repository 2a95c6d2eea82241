// The page: makes the store and every view, and puts them in their places.
//
// Hooks for tests and links: #graph (the focus stop of the graph), [data-key] on every box and frame
// in sight (data-state "later", "begun", "there", "again", "now" or "freed"; class "selected"), #step-back,
// #step-slider, #step-next, #step-text, #colour, #find, #find-results, #fit, #theme, #help,
// #help-dialog, #outline, #outline-tree, #inspector, #value-path, #tab-memory, #tab-budget,
// #tab-ranks, #tab-advice, #tab-training, #tab-values, #panel-memory, #panel-budget, #panel-training, #panel-values,
// #budget-slider, #budget-text, #announcer; [data-value-id] wherever a value is shown outside the
// graph. The step 0 is before the first one and shows all at once.

import { createActions } from "./actions.js";
import { keepAddress, revealGiven, stateIn } from "./address.js";
import { createAnnouncer } from "./announcer.js";
import { createAdvice } from "./advice_view.js";
import { createBudgetView } from "./budget_view.js";
import { createBudgets } from "./budgets.js";
import { element } from "./dom.js";
import { createGraph } from "./graph.js";
import { createHeader } from "./header.js";
import { createHelp } from "./help.js";
import { createInspector } from "./inspector.js";
import { listenToKeys } from "./keyboard.js";
import { createMemory } from "./memory_view.js";
import { createModel } from "./model.js";
import { createOutline } from "./outline.js";
import { createPrint } from "./print.js";
import { createScopes } from "./scopes.js";
import { createSplitter } from "./splitters.js";
import { createStore } from "./store.js";
import { createRanks } from "./ranks_view.js";
import { createTabs } from "./tabs.js";
import { followTheme } from "./themes.js";
import { createTraining, hasCurves } from "./training_view.js";
import { createValuesTable } from "./values_table.js";

const SCHEMA = "chainrule.report/1";
const PLACEHOLDER_ID = "waiting";

/**
 * Fills an element with the page for some data.
 * @param {HTMLElement} root
 * @param {any} data of the schema chainrule.report/1
 */
export async function start(root, data) {
  if (data.schema !== SCHEMA) throw new Error(`the data are ${data.schema}, not ${SCHEMA}`);
  const page = pageOf(data);
  followTheme(page.store, data.drawing.colours);
  const help = createHelp(page);
  const graph = createGraph(page);
  page.actions.graph = graph;
  const outline = () => document.body.classList.toggle("outline-shown");
  const header = createHeader(page, {
    fit: () => graph.fit(),
    help: () => help.showModal(),
    outline,
  });
  const body = element(
    "main",
    { class: "page-body" },
    createOutline(page),
    createSplitter({
      name: "--outline-width",
      label: "Width of the outline",
      upright: true,
      sign: 1,
      least: 120,
      most: 480,
    }),
    graph.view,
    createInspector(page), // by Tab the next after the graph
    createSplitter({
      name: "--bottom-height",
      label: "Height of the views below",
      upright: false,
      sign: -1,
      least: 34,
      most: 700,
    }),
    createTabs(page, tabsOf(page)),
    createSplitter({
      name: "--inspector-width",
      label: "Width of the inspector",
      upright: true,
      sign: -1,
      least: 240,
      most: 720,
    }),
  );
  document.getElementById(PLACEHOLDER_ID)?.remove();
  root.append(header, body, help, createAnnouncer(page), createPrint(page, graph));
  document.title = data.title;
  if (!page.given.view) graph.begin();
  else graph.move(page.given.view);
  page.store.subscribe(["selected"], () => document.body.classList.remove("outline-shown"));
  listenToKeys(page, graph, help);
  keepAddress(page, graph);
  revealGiven(page, page.given);
  graph.scene.decorate(page.scopes.keyOf(page.store.state.selected));
}

function pageOf(data) {
  const model = createModel(data);
  const scopes = createScopes(data.drawing, model);
  const budgets = createBudgets(data);
  const given = stateIn(location.hash, { data, model, scopes, budgets });
  const store = createStore({
    cursor: 0,
    selected: null,
    asked: given.selected !== undefined && !given.cursor,
    open: new Set(data.drawing.open),
    view: { x: 0, y: 0, scale: 1 },
    tab: "memory",
    budget: 0,
    theme: "auto",
    dark: false,
    colour: "kind",
    ...given,
  });
  const actions = createActions(model, store, scopes);
  return { data, model, scopes, budgets, store, actions, given };
}

function tabsOf(page) {
  const tabs = [{ key: "memory", title: "Memory", view: createMemory(page) }];
  if (page.budgets) tabs.push({ key: "budget", title: "Budget", view: createBudgetView(page) });
  if (page.data.ranks) tabs.push({ key: "ranks", title: "Ranks", view: createRanks(page) });
  if (page.data.advice) tabs.push({ key: "advice", title: "Advice", view: createAdvice(page) });
  if (hasCurves(page.data))
    tabs.push({ key: "training", title: "Training", view: createTraining(page) });
  tabs.push({ key: "values", title: "Values", view: createValuesTable(page) });
  return tabs;
}
