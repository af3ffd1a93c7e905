// The form for the token of a service that asks for one; it stands in the head of every page.

import * as api from "./api.js";

const box = document.getElementById("token");
const field = document.getElementById("token-field");

// `begin` is called anew with each token that is given.
export function onToken(begin) {
  document.getElementById("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    api.keepToken(field.value.trim());
    field.value = "";
    box.open = false;
    begin();
  });
}

// Opens the form where a service refused to answer without one.
export function askToken() {
  box.open = true;
  field.focus();
}
