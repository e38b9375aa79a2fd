<?php
// Output buffers: how many there are at first is a matter of the configuration.
echo ob_get_level() > 1 ? 'leaked' : 'clean';
ob_start();
ob_start(fn ($bytes) => $bytes);
