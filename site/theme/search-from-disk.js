// A browser starts no worker for a page from disk. The theme's search then runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc =
        `<script>window.postMessage = data => window.answer(data)</script><script src="${url}"></script>`;
      this.frame.onload = () => {
        this.frame.contentWindow.answer = data => this.dispatchEvent(new MessageEvent("message", { data }));
        this.waiting.forEach(data => this.deliver(data));
        this.waiting = null;
      };
      document.body.append(this.frame);
    }
    deliver(data) {
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.deliver(data);
    }
  };
}
