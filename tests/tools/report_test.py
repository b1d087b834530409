#!/usr/bin/env python3
"""Opens reports in Chromium, headless: nothing is loaded or executed that is not ours, clicks and keys work, ten thousand
nodes paint and scroll in time, and the page can be read without scripts. `./dev report-test` installs what it needs.

    report_test.py TOOL FOLDER [MODEL ...]     pages and screenshots of 1400 and 700 pixels go to FOLDER, for you to look at

A MODEL is more to report: words of a command line, such as "model.pt -i 1x3x224x224:f32:randn".
"""
import json
import os
import shlex
import subprocess
import sys
import time

from selenium import webdriver
from selenium.common.exceptions import NoAlertPresentException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = os.path.join(ROOT, "samples/models")
FIRST_PAINT_MS, FRAME_MS = 1000, 33
EVIL = "</script><img src=x onerror=alert(1)>\u202e\"'&"


def large(path, count=10_000):
    """A deep chain with a skip connection in every other node."""
    with open(path, "w", encoding="utf-8") as f:
        f.write("graph(%x.1 : Float(4, 8, strides=[8, 1], requires_grad=0, device=cpu)):\n"
                "  %one : int = prim::Constant[value=1]()\n")
        last = before = "x.1"
        for i in range(count):
            call = f"aten::add(%{last}, %{before}, %one)" if i % 2 else f"aten::relu(%{last})"
            layer = f"__module.layers.{i // 20}"
            f.write(f"  %input.{i} : Tensor = {call}, scope: {layer}/{layer}.{'norm' if i % 2 else 'act'} # m.py:{i}:1\n")
            before, last = last, f"input.{i}"
        f.write(f"  return (%{last})\n")


def hostile(path):
    with open(path, "w", encoding="utf-8") as f:
        f.write("graph(%x : Tensor):\n"
                f"  %k : str = prim::Constant[value=\"</script><b>{'a' * 10_000_000}\"]()\n"
                f"  %y : Tensor = aten::relu(%x), scope: __module.{EVIL}\n"
                f"  %n : int = aten::len(%k), scope: {EVIL}\n  return (%y, %n)\n")


class Checks:
    def __init__(self):
        self.faults = []

    def __call__(self, good, what):
        if not good:
            self.faults.append(what)
            print("FAULT", what)


def browser():
    options = Options()
    flags = ["--headless=new", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking"]
    if os.getuid() == 0:
        flags.append("--no-sandbox")
    for flag in flags:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)


def requests(driver):
    """Addresses that the page has asked for."""
    out = []
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            out.append(message["params"]["request"]["url"])
    return out


def scroll_frames(driver):
    """Milliseconds between frames while the page scrolls from its middle on, a third of a screen each time, ascending."""
    driver.execute_async_script("""
        const done = arguments[arguments.length - 1], times = [];
        const from = document.body.scrollHeight / 2;
        scrollTo(0, from);
        let last = performance.now(), i = 0;
        const step = now => {
          times.push(now - last); last = now;
          scrollTo(0, from + innerHeight / 3 * ++i);
          if (i < 240) requestAnimationFrame(step); else { window.frames_ = times.slice(5).sort((a, b) => a - b); done(); }
        };
        requestAnimationFrame(step);""")
    return driver.execute_script("return window.frames_")


def check_page(driver, path, name, check):
    url = "file://" + path
    for width in (1400, 700):
        driver.set_window_size(width, 1500)
        driver.get_log("performance")
        driver.get(url)
        time.sleep(0.3)
        driver.save_screenshot(path.replace(".html", f"-{width}.png"))
        overflow = driver.execute_script("return document.documentElement.scrollWidth - innerWidth")
        check(overflow <= 0, f"{name}: the page is {overflow} pixels wider than {width}")
        rows = driver.find_elements(By.CSS_SELECTOR, "#list tr[id]")
        row = rows[len(rows) // 2]
        driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", row)
        row.click()
        pane = driver.find_element(By.ID, "node")
        check("at" in row.get_attribute("class").split(), f"{name}: a click chooses no row")
        check(len(pane.text) > 20, f"{name}: a click tells nothing")
        before = pane.text
        driver.find_element(By.ID, "list").send_keys(Keys.ARROW_DOWN)
        check(driver.find_element(By.CSS_SELECTOR, "#list tr.at") != row and pane.text != before,
              f"{name}: the arrow key does not move")
        driver.execute_script("document.getElementById('graph').scrollIntoView()")
        time.sleep(0.2)
        driver.save_screenshot(path.replace(".html", f"-{width}-graph.png"))
        filter_ = driver.find_element(By.ID, "filter")
        filter_.send_keys("relu")
        time.sleep(0.6)
        shown = driver.execute_script("return document.querySelectorAll('#list tr[id]:not([hidden])').length")
        check(shown < len(rows), f"{name}: the filter hides nothing")
        filter_.send_keys(Keys.BACKSPACE * 4)
        time.sleep(0.4)
        heads = driver.find_elements(By.CSS_SELECTOR, ".sheet thead .sort")
        if heads:
            driver.execute_script("arguments[0].click()", heads[-1])
        boxes = driver.find_elements(By.CSS_SELECTOR, ".time a")
        if boxes:
            driver.execute_script("arguments[0].click()", boxes[-1])
            check(driver.find_elements(By.CSS_SELECTOR, "#list tr.at"), f"{name}: a box leads nowhere")
        asked = [u for u in requests(driver) if not u.startswith(("file://" + path, "blob:", "data:"))]
        check(not asked, f"{name}: the page asks for {asked}")
    for line in driver.get_log("browser"):
        check(False, f"{name}: console: {line['message'][:300]}")
    try:
        driver.switch_to.alert.dismiss()
        check(False, f"{name}: something of the model was executed")
    except NoAlertPresentException:
        pass
    check(driver.execute_script("return document.images.length + document.querySelectorAll('iframe,object').length") == 0,
          f"{name}: something of the model is markup")


def speed(driver, path):
    """Milliseconds to the first paint, and of frames while scrolling (95 of 100 are shorter); the best of three."""
    driver.set_window_size(1400, 1000)
    paints, frames = [], []
    for _ in range(3):
        driver.get("file://" + path)
        time.sleep(0.5)
        paints.append(driver.execute_script(
            "return performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        times = scroll_frames(driver)
        frames.append(times[int(len(times) * 0.95)])
    return min(paints), min(frames)


def check_speed(driver, path, name, check):
    empty = os.path.join(os.path.dirname(path), "empty.html")
    with open(empty, "w", encoding="utf-8") as f:
        f.write("<!DOCTYPE html><p>empty<div style=height:240000px></div><p>end")
    empty_paint, empty_frame = speed(driver, empty)
    paint, frame = speed(driver, path)
    size = os.path.getsize(path)
    print(f"{name}: {size / 1e6:.2f} MB, first paint {paint:.0f} ms, frames {frame:.1f} ms at p95; an empty page of the "
          f"same height: {empty_paint:.0f} ms, {empty_frame:.1f} ms")
    check(size <= 3_000_000, f"{name}: {size} bytes")
    check(paint <= FIRST_PAINT_MS + empty_paint, f"{name}: first paint after {paint:.0f} ms")
    # A machine that is busy cannot paint an empty page in time either.
    check(frame <= max(FRAME_MS + 1, 1.5 * empty_frame), f"{name}: {frame:.0f} ms a frame")


def check_without_scripts(driver, path, name, check):
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    driver.get("file://" + path)
    row = driver.find_element(By.CSS_SELECTOR, "#list tr[id]:nth-of-type(3)")
    check(row.is_displayed() and row.text, f"{name}: without scripts the table cannot be read")
    check(not driver.find_element(By.ID, "filter").is_displayed(), f"{name}: without scripts the filter is offered")
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def main():
    tool, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    os.makedirs(folder, exist_ok=True)
    large(os.path.join(folder, "large.ir"))
    hostile(os.path.join(folder, "hostile.ir"))
    duration = ["--duration", "300ms"]
    pages = {
        "archive": [f"{MODELS}/lenet_archive/model.pt", "-i", "1x1x32x32:f32:randn", *duration],
        "resnet18": [f"{MODELS}/resnet18/model.ir", "-w", f"{MODELS}/resnet18/model.weights", *duration],
        "decoder": [f"{ROOT}/samples/language/byte_qwen/model.ir", "--no-run"],
        "loops": [f"{MODELS}/loops/model.ir", "-w", f"{MODELS}/loops/weights.safetensors", "--inputs",
                  f"{MODELS}/loops/inputs.txt", *duration],
        "hostile": [f"{folder}/hostile.ir", "--no-run"],
        "large": [f"{folder}/large.ir", *duration],
    }
    for i, words in enumerate(sys.argv[3:]):
        pages[f"more{i}"] = shlex.split(words)
    check = Checks()
    driver = browser()
    try:
        for name, words in pages.items():
            path = os.path.join(folder, name + ".html")
            done = subprocess.run([tool, "report", *words, "-q", "-o", path], capture_output=True, text=True)
            check(done.returncode == 0, f"{name}: {done.stderr[:500]}")
            if done.returncode == 0:
                check_page(driver, path, name, check)
        check_speed(driver, os.path.join(folder, "large.html"), "large", check)
        check_without_scripts(driver, os.path.join(folder, "resnet18.html"), "resnet18", check)
    finally:
        driver.quit()
    print(f"{len(pages)} pages, {len(check.faults)} faults; screenshots are in {folder}")
    sys.exit(1 if check.faults else 0)


main()
