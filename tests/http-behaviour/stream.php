<?php
// Sends an event, waits at a gate, and goes on as told.
header('content-type: text/event-stream');
if (isset($_GET['length'])) {
    header("content-length: $_GET[length]");
}
echo "data: 1\n\n";
flush();
fopen($_GET['gate'], 'r');
if ($_GET['then'] === 'crash') {
    exec('exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; kill -SEGV ' . getmypid());
    sleep(10);
}
echo "data: 2\n\n";
