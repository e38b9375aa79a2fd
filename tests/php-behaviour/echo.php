<?php
// Answers with the payload.
echo stoker_payload();
