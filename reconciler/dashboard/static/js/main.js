// Puts the parts of the page together.

import { mountAccount } from "./account_view.js";
import { mountBanners } from "./banners.js";
import { followBudget } from "./budget.js";
import { mountKeyDialog } from "./dialogs.js";
import { mountEvents } from "./events_view.js";
import { mountGates } from "./gates_view.js";
import { mountHeader } from "./header.js";
import { follow } from "./live.js";
import { mountModel } from "./model_view.js";
import { mountModels } from "./models_view.js";
import { mountPlan } from "./plan_view.js";
import { mountRouter } from "./router.js";
import { clockNow, set } from "./store.js";
import { mountTimeline } from "./timeline_view.js";

mountHeader();
mountBanners();
mountAccount();
mountPlan();
mountModels();
mountGates();
mountTimeline();
mountEvents();
mountModel();
mountKeyDialog();
mountRouter();
followBudget();
setInterval(() => set({ now: clockNow() }), 1000);
follow();
