"""One group → all that its judges say: passes, panel, corrective requests, further passes."""
