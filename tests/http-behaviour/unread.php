<?php
// Answers with 1 MB before it has read the body.
echo str_repeat('y', 1 << 20);
