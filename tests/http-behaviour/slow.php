<?php
// Says that it has begun, and then writes for so long that it must be stopped. Says that it ends, unless it is killed.
register_shutdown_function(fn () => touch($_GET['begun'] . '.over'));
file_put_contents($_GET['begun'], getmypid());
for ($end = microtime(true) + 30; microtime(true) < $end; usleep(20000)) {
    echo str_repeat('z', 70000);
    flush();
}
