<?php
// Ends when another request has arrived too. Only a server that runs two requests at once can answer.
touch("{$_GET['dir']}/{$_GET['me']}");
for ($end = microtime(true) + 20; microtime(true) < $end; usleep(5000)) {
    clearstatcache();
    if (file_exists("{$_GET['dir']}/{$_GET['other']}")) {
        exit('met');
    }
}
echo 'alone';
