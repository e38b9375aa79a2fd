<?php
// Ends in the middle of its output.
echo 'before';
flush();
exit(3);
