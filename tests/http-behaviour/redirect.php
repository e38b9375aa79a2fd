<?php
// Redirects, with the status that PHP chooses.
header('Location: /elsewhere?x=1');
