<?php
// Dies in the middle of its answer.
header('content-length: 1000');
echo 'before';
while (ob_get_level()) {
    ob_end_flush();
}
flush();
// The shell closes what it has inherited first: it must not hold the server's listening socket open.
exec('exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; kill -SEGV ' . getmypid());
sleep(10);
