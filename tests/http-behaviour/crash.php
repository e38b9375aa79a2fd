<?php
// Dies in the middle of its answer.
header('content-length: 1000');
echo 'before';
while (ob_get_level()) {
    ob_end_flush();
}
flush();
exec('kill -SEGV ' . getmypid());
sleep(10);
