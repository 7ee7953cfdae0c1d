// The field for the next message, with pictures where the model can see them.
import { byId, el, iconButton, toast } from "./dom.js";

// A server with 16 GB of memory takes 8 MB of JSON; base64 adds a third. One with less says so.
const kMostPictureBytes = 5 << 20;
const kPictureTypes = ["image/png", "image/jpeg", "image/webp", "image/gif"];

function readPicture(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve({ name: file.name || "picture", type: file.type,
                                    data: reader.result.slice(reader.result.indexOf(",") + 1) });
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

export class Composer {
  // `send(text, images)`, `stop()`, `editLast()`.
  constructor({ send, stop, editLast }) {
    this.send = send;
    this.field = byId("prompt");
    this.button = byId("send");
    this.images = [];
    this.running = false;
    this.sees = false;
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.running) stop();
      else this.submit();
    });
    this.field.addEventListener("input", () => this.fit());
    this.field.addEventListener("keydown", (event) => {
      // On a touch screen Enter is the only way to begin a line.
      const touch = matchMedia("(pointer: coarse)").matches;
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !touch) {
        event.preventDefault();
        if (!this.running) this.submit();
      } else if (event.key === "ArrowUp" && this.field.value === "" && !this.running) {
        event.preventDefault();
        editLast();
      }
    });
    byId("attach").addEventListener("click", () => byId("pictures").click());
    byId("pictures").addEventListener("change", (event) => {
      this.addPictures([...event.target.files]);
      event.target.value = "";
    });
    this.field.addEventListener("paste", (event) => {
      const files = [...event.clipboardData.files];
      if (files.length === 0 || !this.sees) return;
      event.preventDefault();
      this.addPictures(files);
    });
    const form = byId("composer");
    // Without this a picture that is dropped takes the page's place.
    form.addEventListener("dragover", (event) => event.preventDefault());
    form.addEventListener("drop", (event) => {
      event.preventDefault();
      if (this.sees) this.addPictures([...event.dataTransfer.files]);
      else if (event.dataTransfer.files.length > 0) toast("This model can't see pictures.");
    });
  }

  // The model takes pictures.
  setSees(sees) {
    this.sees = sees;
    byId("attach").hidden = !sees;
  }

  setRunning(running) {
    this.running = running;
    this.button.classList.toggle("stop", running);
    this.button.setAttribute("aria-label", running ? "Stop the reply" : "Send");
    this.button.title = running ? "Stop (Esc)" : "Send (Enter)";
  }

  submit() {
    const text = this.field.value.trim();
    if (text === "" && this.images.length === 0) return;
    const images = this.images;
    this.clear();
    this.send(text, images);
  }

  clear() {
    this.field.value = "";
    this.images = [];
    this.showPictures();
    this.fit();
  }

  // Where a keyboard takes half of the screen, it comes only when it is asked for.
  focus() {
    if (!matchMedia("(pointer: coarse)").matches) this.field.focus();
  }

  // As high as its text, up to what the style allows.
  fit() {
    this.field.style.height = "auto";
    this.field.style.height = `${this.field.scrollHeight}px`;
  }

  async addPictures(files) {
    for (const file of files) {
      if (!kPictureTypes.includes(file.type)) {
        toast(`${file.name} is no PNG, JPEG, WebP or GIF.`);
      } else if (file.size > kMostPictureBytes) {
        toast(`${file.name} is larger than ${kMostPictureBytes >> 20} MiB.`);
      } else {
        this.images.push(await readPicture(file));
      }
    }
    this.showPictures();
  }

  showPictures() {
    byId("attached").replaceChildren(...this.images.map((image) => el("li", {},
      el("img", { src: `data:${image.type};base64,${image.data}`, alt: image.name }),
      iconButton("close", `Remove ${image.name}`, () => {
        this.images = this.images.filter((other) => other !== image);
        this.showPictures();
        this.focus();
      }))));
  }
}
