import "./styles/index.css";
import { render } from "preact";
import { App } from "./app";
import { language } from "./texts";

document.documentElement.lang = language;
render(<App />, document.body);
